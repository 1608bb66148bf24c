"""The curve of a run: the protocol's score after every turn, what it took, and what a smaller budget had given."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from d2k_agent.agent import select
from d2k_agent.catalog import samples_dir
from d2k_agent.contract import QUEUED, VerdictStatus
from d2k_agent.evaluator import judge
from d2k_agent.models import Usage
from d2k_agent.records import (
    FALLBACK_SCORE,
    QUEUED_S,
    ConfirmationReached,
    ConfirmationTook,
    EvaluationTook,
    Event,
    ModelCallFailed,
    ModelReplied,
    RunResumed,
    SelectionConfirmed,
    SelectionMade,
    StopReason,
    ToolCallInterrupted,
    ToolCallStarted,
    ToolFinished,
    Trace,
    curve,
    read_trace,
)
from d2k_agent.records.curves import HOLDS_THE_GPU
from tests.reports.curved import (
    COST_USD,
    GPU_SECONDS,
    STEPS,
    a_curved_run,
    a_turn,
    ending,
    found,
    on_a_cpu,
    record,
    sha_of,
    turns_of,
)
from tests.reports.events import reply, stamped
from tests.reports.measured import H200

INCORRECT = VerdictStatus.INCORRECT
OUTCOMES = st.lists(st.one_of(st.none(), st.just(INCORRECT), st.floats(0.01, 20.0)), max_size=12)


def scores(trace: Trace) -> list[float]:
    return [point.score for point in curve(trace).points]


def trace_of(*events: Event) -> Trace:
    return Trace(record(), tuple(stamped(*events)))


def test_the_score_is_the_fallback_until_the_first_eligible_submission_and_then_the_best_so_far() -> None:
    assert scores(a_curved_run(None, INCORRECT, 1.25, 0.9, 2.5)) == [0.1, 0.1, 0.1, 1.25, 1.25, 2.5]


def test_a_measured_score_below_the_fallback_is_used_as_measured() -> None:
    assert scores(a_curved_run(None, 0.056)) == [FALLBACK_SCORE, FALLBACK_SCORE, 0.056]


def test_each_point_has_what_was_spent_until_then() -> None:
    found = curve(a_curved_run(None, 1.25, INCORRECT))
    taken = [(p.spent.tokens, p.spent.cost_usd, p.spent.gpu_seconds, p.spent.usage.cache_read) for p in found.points]
    one = Decimal(str(COST_USD))
    assert taken == [
        (0, 0, 0.0, 0),
        (32_500, one, 0.0, 30_000),
        (65_000, 2 * one, GPU_SECONDS, 60_000),
        (97_500, 3 * one, 2 * GPU_SECONDS, 90_000),
    ]
    assert not any(
        p.spent.tokens_lower_bound or p.spent.cost_lower_bound or p.spent.gpu_lower_bound for p in found.points
    )


def test_the_end_has_the_replies_and_the_confirmation_that_came_after_the_last_turn() -> None:
    verdict, _ = found(1.25, sha_of(1), H200)
    key = {"sha256": sha_of(1), "attempt": 1}
    confirmation = [ConfirmationTook(**key, seconds=STEPS), ConfirmationReached(**key, verdict=verdict)]
    last = a_curved_run(1.25)
    trace = trace_of(*turns_of([1.25]), reply(2, usage=Usage(1, 2, 3, 4), cost_usd=0.5), *confirmation)
    assert curve(trace).points == curve(last).points
    end = curve(trace).end
    assert (end.turn, end.score, end.spent.tokens, end.spent.gpu_seconds) == (1, 1.25, 32_510, 2 * GPU_SECONDS)
    assert end.spent.cost_usd == Decimal("0.538")


def test_a_candidate_that_was_refused_when_judged_again_is_in_no_point() -> None:
    refused = SelectionConfirmed(sha256=sha_of(2), confirmed=False, note="refused")
    trace = trace_of(*turns_of([1.25, 9.0]), refused)
    assert scores(trace) == [0.1, 1.25, 1.25]


@given(OUTCOMES, st.integers(1, 14))
def test_a_smaller_budget_selects_what_a_run_of_that_budget_would_have_selected(
    outcomes: list[float | VerdictStatus | None], budget: int
) -> None:
    whole = a_curved_run(*outcomes)
    point = curve(whole).under(budget)
    assert point is not None
    chosen = select(whole.submissions, whole.run.workloads, budget).selection
    assert (None if point.best is None else point.best.sha256) == (None if chosen is None else chosen.sha256)
    shorter = curve(a_curved_run(*outcomes[:budget])).points[-1]
    assert point.spent == shorter.spent and point.turn == shorter.turn


@given(OUTCOMES)
def test_the_whole_curve_ends_where_the_totals_of_the_run_do(outcomes: list[float | VerdictStatus | None]) -> None:
    trace = a_curved_run(*outcomes)
    end = curve(trace).end
    if outcomes:
        assert end.spent.usage == trace.totals.usage
        assert end.spent.cost_usd is not None and float(end.spent.cost_usd) == trace.totals.cost_usd


@pytest.mark.parametrize(
    ("reason", "known"),
    [
        (StopReason.FINISHED_BY_MODEL, True),
        (StopReason.COST_LIMIT, True),
        (StopReason.TURN_LIMIT, False),
        (StopReason.STOP_REQUESTED, False),
    ],
)
def test_a_larger_budget_is_answered_only_where_the_run_would_have_ended_all_the_same(
    reason: StopReason, known: bool
) -> None:
    found = curve(a_curved_run(None, 2.0, reason=reason))
    assert found.under(2) == found.points[2]
    assert found.under(3) == (found.end if known else None)


def test_of_a_run_that_is_not_over_nobody_knows_what_more_turns_give() -> None:
    assert curve(trace_of(*turns_of([2.0]))).under(2) is None


def test_what_nobody_counted_is_unknown_and_a_gap_makes_a_lower_bound_from_there_on() -> None:
    nothing, gap = [a_turn(turn, None, Usage.unknown(), None) for turn in (1, 2)]
    points = curve(trace_of(*nothing, *gap)).points
    assert [(p.spent.tokens, p.spent.cost_usd) for p in points] == [(0, 0), (None, None), (None, None)]

    lost = ModelCallFailed(call=2, reason="hung up", may_be_billed=True, unknown_attempts=1)
    points = curve(trace_of(*a_turn(1, None), *[lost, *a_turn(2, None)], *a_turn(3, None))).points
    assert [p.spent.tokens_lower_bound for p in points] == [False, False, True, True]
    assert [p.spent.cost_lower_bound for p in points] == [False, False, True, True]
    assert points[-1].spent.tokens == 3 * 32_500


def test_on_a_cpu_no_gpu_was_held_and_the_score_stays_the_fallback() -> None:
    found = curve(on_a_cpu(INCORRECT, VerdictStatus.UNTIMED))
    assert [(p.score, p.spent.gpu_seconds) for p in found.points] == [(0.1, 0.0)] * 3


def test_a_profile_holds_the_gpu_as_long_as_its_call_takes_without_the_wait_for_it() -> None:
    profile = ToolFinished(
        turn=1, index=2, call_id="p", name="profile", status="ok", text="", seconds=7.0, data={"outcome": "profiled"}
    )
    assert curve(trace_of(profile, *a_turn(1, None))).points[1].spent.gpu_seconds == 7.0
    waited = profile.model_copy(update={"data": {"outcome": "profiled", QUEUED_S: 3.0}})
    assert curve(trace_of(waited, *a_turn(1, None))).points[1].spent.gpu_seconds == 4.0
    on_cpu = profile.model_copy(update={"data": {"outcome": "untimed"}})
    assert curve(trace_of(on_cpu, *a_turn(1, None))).points[1].spent.gpu_seconds == 0.0


@pytest.mark.parametrize(("tool", "complete"), [("submit", False), ("profile", False), ("read", True)])
def test_a_call_on_the_gpu_that_a_crash_cut_off_makes_its_seconds_a_lower_bound(tool: str, complete: bool) -> None:
    cut_off = [
        ToolCallStarted(turn=1, index=1, call_id="x", name=tool),
        ToolCallInterrupted(turn=1, index=1, call_id="x"),
    ]
    spent = curve(trace_of(*cut_off, *a_turn(1, 2.0))).points[1].spent
    assert (spent.gpu_seconds, spent.gpu_lower_bound) == (GPU_SECONDS, not complete)


def test_a_confirmation_that_a_crash_cut_off_does_too() -> None:
    selected, _ = ending([2.0])
    assert isinstance(selected, SelectionMade)
    resumed = RunResumed(pid=1, checkpoint=True)
    assert curve(trace_of(*turns_of([2.0]), selected, resumed)).end.spent.gpu_lower_bound
    assert not curve(trace_of(*turns_of([2.0]), resumed, selected)).end.spent.gpu_lower_bound


def test_an_evaluation_whose_seconds_were_not_recorded_leaves_them_unknown() -> None:
    events = [event for event in turns_of([2.0]) if not isinstance(event, EvaluationTook)]
    spent = curve(trace_of(*events)).points[1].spent
    assert spent.gpu_seconds is None and spent.gpu_lower_bound


def test_a_run_without_events_has_its_beginning() -> None:
    found = curve(Trace(record(), ()))
    assert [p.turn for p in found.points] == [0] and found.end.spent.tokens == 0 and not found.ended


def test_the_sample_run_climbs_to_its_selection() -> None:
    trace = read_trace(samples_dir() / "muon")
    found = curve(trace)
    finished = trace.finished
    assert finished is not None and finished.selection is not None and found.end.best is not None
    assert found.end.best.sha256 == finished.selection.sha256
    assert found.end.score == finished.selection.geomean_speedup == found.points[12].score
    assert [p.turn for p in found.points if p.best is None] == [0, 1, 2, 3, 4, 5]
    seconds = [p.spent.gpu_seconds or 0.0 for p in (*found.points, found.end)]
    assert seconds == sorted(seconds) and seconds[5] == 0 and seconds[-1] > seconds[-2] > 0
    replies = [event for event in trace.events if isinstance(event, ModelReplied)]
    assert replies and found.end.spent.tokens is None


def test_waiting_for_the_gpu_does_not_hold_it() -> None:
    assert QUEUED not in HOLDS_THE_GPU


def test_a_wait_longer_than_its_call_is_refused() -> None:
    waited = ToolFinished(
        turn=1, index=2, call_id="p", name="profile", status="ok", text="", seconds=2.0, data={QUEUED_S: 2.5}
    )
    with pytest.raises(ValueError, match="profile of turn 1 waited for the GPU longer than it took"):
        curve(trace_of(waited, *a_turn(1, 2.0)))


def test_every_step_that_the_evaluator_takes_on_the_device_holds_it() -> None:
    assert set(HOLDS_THE_GPU) >= judge._ON_THE_DEVICE
