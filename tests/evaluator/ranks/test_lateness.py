"""Which rank is held up, and where: no place can be told beforehand, and little is left out for long."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any, cast

import pytest

pytest.importorskip("torch")

from d2k_agent.evaluator.devices import CpuDevice
from d2k_agent.evaluator.process import CandidateProcess
from d2k_agent.evaluator.ranks.choosing import device_for, load_task
from d2k_agent.evaluator.ranks.device import RankedDevice
from d2k_agent.evaluator.ranks.group import RankGroup
from d2k_agent.evaluator.ranks.lateness import Lateness
from tests.evaluator.ranks import shifting


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize(("mostly", "seldom"), [("store", "load"), ("load", "store")])
def test_one_pack_has_every_rank_at_either_kind_of_place(ranks: int, mostly: str, seldom: str) -> None:
    lateness = Lateness(ranks)
    for _ in range(3):
        drawn = Counter((late.rank, late.kind) for late in (lateness.draw(mostly) for _ in range(4 * ranks)))
        assert drawn == {(rank, kind): n for rank in range(ranks) for kind, n in ((mostly, 3), (seldom, 1))}


def test_four_places_of_one_rank_are_in_the_four_quarters_of_a_call_in_any_order() -> None:
    lateness, shares = Lateness(2), defaultdict[tuple[int, str], list[float]](list)
    for _ in range(128):
        late = lateness.draw("store")
        shares[late.rank, late.kind].append(late.share)
    orders = set()
    for drawn in shares.values():
        for at in range(0, len(drawn), 4):
            quarters = tuple(int(4 * share) for share in drawn[at : at + 4])
            assert sorted(quarters) == [0, 1, 2, 3]
            orders.add(quarters)
    assert len(orders) > 3


def test_no_two_candidates_are_held_up_alike() -> None:
    firsts = {Lateness(2).draw("store") for _ in range(40)}
    assert len({late.share for late in firsts}) == 40
    assert {(late.rank, late.kind) for late in firsts} >= {(0, "store"), (1, "store")}


class Told:
    """In place of a rank: where it was ordered to be late."""

    def __init__(self) -> None:
        self.hold_ups: list[tuple[float, float, str]] = []

    def order(self, request: dict[str, Any], _: Sequence[int] = ()) -> None:
        self.hold_ups += request["hold_ups"] if "hold_ups" in request else [request["hold_up"]]


@pytest.mark.parametrize(("chained", "often", "seldom"), [(False, "store", "load"), (True, "load", "store")])
def test_in_each_call_one_rank_is_late_and_all_are_told_the_same_place(chained: bool, often: str, seldom: str) -> None:
    device = device_for(load_task(shifting.task(), None), CpuDevice())
    assert isinstance(device, RankedDevice)
    told = [Told(), Told()]
    left = iter(cast(list[CandidateProcess], told))
    group = RankGroup(lambda _: next(left), device, gathers=False)
    for _ in range(8 if chained else 32):
        if chained:
            group.order_chain(4)
        else:
            group.order({"do": "call", "set": 0})
    calls = list(zip(*(rank.hold_ups for rank in told), strict=True))
    assert len({share for ((share, _, _), _) in calls}) == len(calls) == 32
    assert all(sorted(seconds for _, seconds, _ in call) == [0.0, 0.05] for call in calls)
    assert all(len({(share, kind) for share, _, kind in call}) == 1 for call in calls)
    assert Counter(call[0][2] for call in calls) == {often: 24, seldom: 8}
    assert Counter(call[0][1] for call in calls) == {0.0: 16, 0.05: 16}, "now the one, now the other"
