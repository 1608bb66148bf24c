"""A policy over a run: it decides by what was recorded until then, and the same whether the run is over or goes on."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from d2k_agent.catalog import samples_dir
from d2k_agent.contract import VerdictStatus
from d2k_agent.models import Usage
from d2k_agent.records import (
    ConfirmationReached,
    ConfirmationTook,
    EvaluationTook,
    Event,
    ModelCallFailed,
    SelectionConfirmed,
    ToolFinished,
    curve,
    read_trace,
)
from d2k_agent.study import DEFAULT_POLICIES, Gain, Headroom, Plateau, Policy, first_stop, parse_policy, stop_rule
from tests.reports.curved import GPU_SECONDS, STEPS, USAGE, a_curved_run, a_turn, ending, found, sha_of, turns_of
from tests.reports.events import reply
from tests.reports.measured import H200
from tests.study.replayed import floors, no_floors, points, points_of, trace_of

OUTCOMES = st.lists(
    st.one_of(st.none(), st.just(VerdictStatus.INCORRECT), st.floats(0.5, 4.0)), min_size=1, max_size=10
)
POLICIES = st.one_of(
    st.builds(Headroom, factor=st.floats(1, 2)),
    st.builds(Plateau, turns=st.integers(1, 4), percent=st.floats(0, 50)),
    st.builds(Gain, percent_per_usd=st.floats(0.1, 1000), turns=st.integers(1, 4)),
)
FLOORS = floors(small=10.0, large=100.0)


@settings(max_examples=30)
@given(OUTCOMES, OUTCOMES, POLICIES)
def test_a_decision_rests_on_what_was_recorded_until_then(
    before: list[float | VerdictStatus | None], after: list[float | VerdictStatus | None], policy: Policy
) -> None:
    """Whatever comes later, a refusal of what was best included, the points and the decisions are the same."""
    turn = len(before)
    later = [event for number, outcome in enumerate(after, turn + 1) for event in a_turn(number, outcome)]
    refused = SelectionConfirmed(sha256=sha_of(turn), confirmed=False, note="refused")
    profile = ToolFinished(turn=1, index=5, call_id="p", name="profile", status="error", text="", seconds=3.0)
    begun = [profile, *turns_of(before)]
    known, whole = points_of(trace_of(begun)), points_of(trace_of([*begun, *later, refused, *ending(())]))
    assert whole[: turn + 1] == known
    assert policy.decide(whole[: turn + 1], FLOORS) == policy.decide(known, FLOORS)
    stop, cut = first_stop(whole, policy, FLOORS), first_stop(known, policy, FLOORS)
    assert stop == cut if cut.after_turn is not None else stop.after_turn is None or stop.after_turn > turn


@settings(max_examples=30)
@given(OUTCOMES)
def test_the_points_of_a_run_that_goes_on_are_those_of_its_report(outcomes: list[float | VerdictStatus | None]) -> None:
    trace = a_curved_run(*outcomes)
    assert tuple(points_of(trace)) == curve(trace).points


@settings(max_examples=30)
@given(OUTCOMES, POLICIES)
def test_a_run_that_goes_on_ends_where_its_replay_does(
    outcomes: list[float | VerdictStatus | None], policy: Policy
) -> None:
    history = points(*outcomes)
    rule = stop_rule(policy, FLOORS)
    live = (rule(history[: turn + 1]) for turn in range(1, len(history)))
    first = next((event for event in live if event is not None), None)
    stop = first_stop(history, policy, FLOORS)
    assert stop.after_turn == (None if first is None else first.turn)
    if first is not None:
        assert (first.policy, first.why, first.numbers) == (policy.text, stop.decision.why, stop.decision.numbers)


def test_a_policy_that_could_not_tell_at_some_turn_of_a_whole_run_says_so_and_not_its_last_word() -> None:
    unpriced, priced = a_turn(2, 1.5, USAGE, None), [event for turn in (3, 4, 5) for event in a_turn(turn, 1.5 + turn)]
    history = points_of(trace_of([*a_turn(1, 1.0, USAGE, None), *unpriced, *priced]))
    policy = Gain(percent_per_usd=0.01, turns=1)
    assert policy.decide(history, no_floors).stop is False
    stop = first_stop(history, policy, no_floors)
    assert stop.after_turn is None and stop.decision.stop is None and "nobody knows how many US$" in stop.decision.why


def test_a_candidate_that_is_refused_at_the_end_counts_for_the_decision_and_not_for_the_score() -> None:
    refused = SelectionConfirmed(sha256=sha_of(2), confirmed=False, note="refused")
    trace = trace_of([*turns_of([1.0, 3.0, None, 1.5]), refused, *ending([1.5])])
    stop = first_stop(points_of(trace), Plateau(turns=1, percent=1.0), no_floors)
    assert stop.after_turn == 3
    assert curve(trace).saved_after(3).score_percent == pytest.approx(100 / 1.5)


def test_a_replay_tells_what_an_early_end_saves_and_keeps() -> None:
    trace = a_curved_run(1.0, 2.0, None, None, 2.5)
    saved = curve(trace).saved_after(3)
    assert (saved.tokens_percent, saved.usd_percent, saved.score_percent) == pytest.approx((40.0, 40.0, 80.0))
    assert saved.gpu_percent == pytest.approx(100 / 3), "one of three submissions"
    whole = curve(trace).saved_after(None)
    assert (whole.tokens_percent, whole.usd_percent, whole.gpu_percent, whole.score_percent) == (0, 0, 0, 100)


def test_what_comes_after_the_last_turn_is_saved_of_replies_and_not_of_the_confirmation() -> None:
    verdict, _ = found(1.25, sha_of(1), H200)
    key = {"sha256": sha_of(1), "attempt": 1}
    after: list[Event] = [ConfirmationTook(**key, seconds=STEPS), ConfirmationReached(**key, verdict=verdict)]
    trace = trace_of([*turns_of([1.25]), reply(2, usage=USAGE, cost_usd=0.038), *after])
    saved = curve(trace).saved_after(1)
    assert curve(trace).end.spent.gpu_seconds == 2 * GPU_SECONDS
    assert (saved.tokens_percent, saved.usd_percent, saved.gpu_percent) == pytest.approx((50.0, 50.0, 0.0))


def test_what_nobody_priced_is_saved_to_an_unknown_part() -> None:
    events = [event for turn in (1, 2) for event in a_turn(turn, 2.0, cost_usd=None)]
    saved = curve(trace_of([*events, *ending([2.0, 2.0])])).saved_after(1)
    assert saved.usd_percent is None and saved.tokens_percent == 50.0
    assert curve(trace_of([*events, *ending([2.0, 2.0])])).saved_after(None).usd_percent == 0, "nothing"


def test_a_gap_in_what_is_saved_leaves_the_share_unknown_and_one_before_does_not() -> None:
    """Four turns: two priced and counted, one of which a part is unknown, one whole."""
    lost = ModelCallFailed(call=3, reason="hung up", may_be_billed=True, unknown_attempts=1)
    whole = [event for turn in (1, 2, 3, 4) for event in a_turn(turn, 2.0, cost_usd=None if turn == 3 else 0.25)]
    unpriced = curve(trace_of([*whole, *ending([2.0])]))
    assert [unpriced.saved_after(turn).usd_percent for turn in (2, 3, None)] == [None, pytest.approx(100 / 3), 0.0]
    assert unpriced.saved_after(2).tokens_percent == 50.0
    cut = curve(trace_of([*a_turn(1, 2.0), lost, *a_turn(2, 2.0)]))
    assert (cut.saved_after(1).tokens_percent, cut.saved_after(1).usd_percent) == (None, None)
    unjudged = [event for event in a_turn(2, 2.0) if not isinstance(event, EvaluationTook)]
    assert curve(trace_of([*a_turn(1, 2.0), *unjudged])).saved_after(1).gpu_percent is None


def test_tokens_in_no_bucket_are_saved_all_the_same() -> None:
    unsplit = Usage(None, None, None, 400, unsplit_input=600)
    saved = curve(trace_of([event for turn in (1, 2) for event in a_turn(turn, 2.0, unsplit)])).saved_after(1)
    assert saved.tokens_percent == 50.0


def test_without_a_final_score_none_is_kept() -> None:
    assert curve(a_curved_run(None, VerdictStatus.INCORRECT)).saved_after(1).score_percent is None


def test_the_sample_run_is_replayed_by_every_default_policy() -> None:
    trace = read_trace(samples_dir() / "muon")
    history = points_of(trace)
    assert [point.score for point in history] == [point.score for point in curve(trace).points]
    for text in DEFAULT_POLICIES:
        assert first_stop(history, parse_policy(text), no_floors).after_turn is None, "6 turns after the first score"
    stop = first_stop(history, Plateau(turns=3, percent=1.0), no_floors)
    assert stop.after_turn == 9 and stop.decision.why == "the last 3 turns made the score better by 0 %"
