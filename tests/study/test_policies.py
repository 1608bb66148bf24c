"""What each stopping policy compares, and what it says where it cannot tell."""

from __future__ import annotations

import pytest

from d2k_agent.contract import VerdictStatus
from d2k_agent.models import Usage
from d2k_agent.records import ModelCallFailed
from d2k_agent.study import Gain, Headroom, Plateau, Policy, never_stops
from tests.reports.curved import COST_USD, a_turn
from tests.study.replayed import floors, no_floors, points, points_of, trace_of

FLOORS = floors(small=10.0, large=100.0)
"""The candidates of these runs take 12.34567 and 130.5 ms: 1.2346 and 1.305 times as long, 1.2693 in the mean."""


@pytest.mark.parametrize("policy", [Headroom(), Plateau(turns=1), Gain(percent_per_usd=1.0, turns=1)], ids=str)
def test_before_the_first_eligible_submission_nothing_stops_a_run(policy: Policy) -> None:
    decision = policy.decide(points(None, VerdictStatus.INCORRECT, None), FLOORS)
    assert decision.stop is False and decision.why == "nothing eligible was handed in yet"


@pytest.mark.parametrize(("factor", "stops"), [(1.26, False), (1.27, True)])
def test_headroom_is_the_geometric_mean_over_the_workloads(factor: float, stops: bool) -> None:
    decision = Headroom(factor).decide(points(2.0), FLOORS)
    assert decision.stop is stops and decision.why == "the candidate of turn 1 takes 1.27 times the floor"
    assert decision.numbers == pytest.approx(
        {"over_floor": (1.234567 * 1.305) ** 0.5, "over_floor.small": 1.234567, "over_floor.large": 1.305}, rel=1e-6
    )


def test_an_unknown_floor_never_stops_a_run_and_is_told() -> None:
    assert Headroom(99.0).decide(points(2.0), no_floors).stop is None
    assert Headroom(99.0).decide(points(2.0), no_floors).why == (
        "no floor of this task on NVIDIA H200 is known, so the headroom is not"
    )
    partly = Headroom(99.0).decide(points(2.0), floors(small=10.0))
    assert (partly.stop, partly.why) == (None, "no floor of large is known, so the headroom is not")


def test_a_plateau_is_as_many_turns_without_a_better_score() -> None:
    climbing = points(1.0, None, 1.005, None, 1.2)
    policy = Plateau(turns=2, percent=1.0)
    assert [policy.decide(climbing[: turn + 1], no_floors).stop for turn in range(1, 6)] == [
        False,  # the first eligible submission is only just there
        False,
        True,  # 0.5 % in two turns
        True,
        False,
    ]
    decision = policy.decide(climbing[:4], no_floors)
    assert decision.why == "the last 2 turns made the score better by 0.5 %"
    assert decision.numbers["gained_percent"] == pytest.approx(0.5)


def test_a_plateau_does_not_begin_before_the_first_eligible_submission() -> None:
    late = points(None, None, None, 2.0)
    decision = Plateau(turns=2).decide(late, no_floors)
    assert (decision.stop, decision.why) == (False, "0 turns since the first eligible submission, of 2")
    assert Plateau(turns=1, percent=0.0).decide(points(2.0, None), no_floors).stop is True


def test_gain_is_what_a_turn_brought_lately_over_what_it_cost() -> None:
    """4 % in two turns of 0.038 dollars each: 1.98 % a turn, 52 % a dollar."""
    history = points(1.0, 1.01, 1.04)
    decision = Gain(percent_per_usd=53.0, turns=2).decide(history, no_floors)
    assert decision.stop is True
    per_turn = 100 * (1.04**0.5 - 1)
    assert decision.numbers == pytest.approx(
        {"percent_per_turn": per_turn, "usd_per_turn": COST_USD, "percent_per_usd": per_turn / COST_USD}
    )
    assert decision.why == "the next turn is expected to gain 1.98 % for 0.038 US$, which is 52.1 % each"
    assert Gain(percent_per_usd=52.0, turns=2).decide(history, no_floors).stop is False


def test_where_no_price_is_known_tokens_decide_if_they_may() -> None:
    history = points(1.0, 1.04, cost_usd=None)
    alone = Gain(percent_per_usd=1.0, turns=1).decide(history, no_floors)
    assert (alone.stop, alone.why) == (None, "nobody knows how many US$ the last 1 turn took")
    decision = Gain(percent_per_usd=1.0, percent_per_mtok=124.0, turns=1).decide(history, no_floors)
    assert decision.stop is True, "4 % for 0.0325 million tokens are 123 % a million"
    assert decision.numbers["mtok_per_turn"] == pytest.approx(0.0325)
    assert Gain(percent_per_mtok=123.0, turns=1).decide(history, no_floors).stop is False


def test_a_known_price_decides_also_where_tokens_might() -> None:
    decision = Gain(percent_per_usd=1e6, percent_per_mtok=1e-6, turns=1).decide(points(1.0, 1.04), no_floors)
    assert decision.stop is True and "percent_per_usd" in decision.numbers


def test_where_neither_dollars_nor_tokens_are_known_gain_cannot_tell() -> None:
    history = points(1.0, 1.04, usage=Usage.unknown(), cost_usd=None)
    decision = Gain(percent_per_usd=1.0, percent_per_mtok=1.0, turns=1).decide(history, no_floors)
    assert (decision.stop, decision.why) == (
        None,
        "nobody knows how many US$ and million tokens the last 1 turn took",
    )


def test_turns_of_which_nothing_is_counted_are_unknown_although_earlier_ones_are() -> None:
    events = [*a_turn(1, 1.0), *a_turn(2, 1.04, Usage.unknown(), None)]
    assert Gain(percent_per_usd=1.0, turns=1).decide(points_of(trace_of(events)), no_floors).stop is None


def test_what_is_not_counted_only_makes_a_turn_dearer() -> None:
    lost = ModelCallFailed(call=2, reason="hung up", may_be_billed=True, unknown_attempts=1)
    history = points_of(trace_of([*a_turn(1, 1.0), lost, *a_turn(2, None)]))
    assert history[-1].spent.cost_lower_bound
    decision = Gain(percent_per_usd=1.0, turns=1).decide(history, no_floors)
    assert decision.stop is True and "for at least 0.038 US$, which is at most 0 % each" in decision.why


def test_a_gain_that_what_is_not_counted_may_make_too_small_is_for_tokens_to_decide() -> None:
    """2 % in two turns, of which one is priced at 0.5 US$: at most 4 % a dollar, 31 % a million tokens."""
    events = [*a_turn(1, 1.0, cost_usd=0.5), *a_turn(2, 1.01, cost_usd=None), *a_turn(3, 1.02, cost_usd=0.5)]
    history = points_of(trace_of(events))
    alone = Gain(percent_per_usd=3.0, turns=2).decide(history, no_floors)
    assert (alone.stop, alone.why) == (None, "nobody knows how many US$ the last 2 turns took")
    assert Gain(percent_per_usd=5.0, turns=2).decide(history, no_floors).stop is True, "at most 4 are below 5"
    for per_mtok, stops in ((40.0, True), (20.0, False)):
        decision = Gain(percent_per_usd=3.0, percent_per_mtok=per_mtok, turns=2).decide(history, no_floors)
        assert decision.stop is stops and "percent_per_mtok" in decision.numbers
    assert Gain(percent_per_usd=1.0, turns=1).decide(history, no_floors).stop is False, "the gap was before"


def test_turns_that_cost_nothing_are_never_too_dear() -> None:
    decision = Gain(percent_per_usd=1.0, turns=1).decide(points(1.0, None, cost_usd=0.0), no_floors)
    assert (decision.stop, decision.why) == (False, "turns cost nothing")


def test_who_can_never_stop_a_run_is_told_before_it_begins() -> None:
    assert "no floor of its task is known" in str(never_stops(Headroom(), floored=False, priced=True))
    assert "no known price" in str(never_stops(Gain(percent_per_usd=1.0), floored=True, priced=False))
    assert never_stops(Gain(percent_per_usd=1.0, percent_per_mtok=1.0), floored=False, priced=False) is None
    assert never_stops(Headroom(), floored=True, priced=False) is None
    assert never_stops(Plateau(), floored=False, priced=False) is None
    for policy in (Headroom(), Plateau(), Gain(percent_per_usd=1.0)):
        assert "nothing is measured on a CPU" in str(never_stops(policy, floored=True, priced=True, on_a_cpu=True))
