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


def test_four_places_of_one_rank_are_in_the_four_quarters_of_a_call() -> None:
    lateness, shares = Lateness(2), defaultdict[tuple[int, str], list[float]](list)
    for _ in range(64):
        late = lateness.draw("store")
        shares[late.rank, late.kind].append(late.share)
    for drawn in shares.values():
        for at in range(0, len(drawn), 4):
            assert sorted(int(4 * share) for share in drawn[at : at + 4]) == [0, 1, 2, 3]


def test_other_processes_are_held_up_elsewhere() -> None:
    firsts = {Lateness(2).draw("store") for _ in range(20)}
    assert len({late.share for late in firsts}) == 20
    assert len({late.rank for late in firsts}) == 2
