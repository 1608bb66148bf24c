"""Which rank is held up, and where: nobody can tell beforehand, and little is left out for long."""

from __future__ import annotations

from collections import Counter, defaultdict

import pytest

from d2k_agent.evaluator.ranks.lateness import Lateness


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize(("mostly", "seldom"), [("store", "load"), ("load", "store")])
def test_one_pack_has_every_rank_at_either_kind_of_place(ranks: int, mostly: str, seldom: str) -> None:
    lateness = Lateness(ranks)
    for _ in range(3):
        drawn = Counter((late.rank, late.kind) for late in (lateness.draw(mostly) for _ in range(4 * ranks)))
        assert drawn == {(rank, kind): n for rank in range(ranks) for kind, n in ((mostly, 3), (seldom, 1))}


def test_seven_places_in_a_row_of_one_rank_leave_no_quarter_out() -> None:
    for _ in range(50):
        lateness, shares = Lateness(2), defaultdict[tuple[int, str], list[float]](list)
        for _ in range(40):
            late = lateness.draw("store")
            shares[late.rank, late.kind].append(late.share)
        for drawn in shares.values():
            assert all({int(4 * share) for share in drawn[at : at + 7]} == {0, 1, 2, 3} for at in range(len(drawn) - 6))


def test_other_processes_are_held_up_elsewhere() -> None:
    firsts = {Lateness(2).draw("store") for _ in range(20)}
    assert len({late.share for late in firsts}) == 20
    assert len({late.rank for late in firsts}) == 2
