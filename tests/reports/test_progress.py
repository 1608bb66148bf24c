"""A run as it is shown while it goes."""

from __future__ import annotations

from datetime import timedelta

import pytest

from d2k_agent.contract import Measurement, VerdictStatus
from d2k_agent.records import (
    CacheChecked,
    Choice,
    Compacted,
    Measured,
    ModelCallInterrupted,
    Nudged,
    RunResumed,
    SelectionConfirmed,
    SelectionMade,
    ToolCallInterrupted,
    ToolCallStarted,
    ToolFinished,
    TurnClosed,
    VerdictReached,
)
from d2k_agent.records.verdicts import Times, WorkloadTime
from d2k_agent.reports.progress import ProgressLines
from d2k_agent.reports.trace_text import event_text
from tests.reports.events import KNOWN, SHA, a_run, a_turn, reply, stamped


def lines_of(events: list) -> list[str]:
    progress = ProgressLines()
    return [line for event in events if (line := progress.feed(event)) is not None]


def test_one_line_a_turn_with_tools_outcome_best_tokens_and_seconds() -> None:
    first, second = lines_of(a_run(KNOWN))
    assert first.split() == ["1", "write,", "submit", "incorrect", "-", "3,250", "8.0", "s"]
    assert second.split() == ["2", "write,", "submit", "untimed", "1", "correct", "3,250", "8.0", "s"]


def test_unreported_tokens_are_unknown_and_not_zero() -> None:
    assert " unknown " in lines_of(a_run())[0]


def measured(turn: int, speedup: float, impossible: tuple[str, ...] = ()) -> Measured:
    timed = Measurement(mean_ms=2.0, calls=10, batches=5, outside_ms=2.0, policy="events_batch")
    workload = WorkloadTime(label="w", measurement=timed, speedup=speedup)
    times = Times(workloads=(workload,), geomean_speedup=speedup, impossible=impossible)
    return Measured(turn=turn, call_id=f"c{turn}1", sha256=SHA, times=times)


def test_an_impossible_latency_is_told_and_is_no_best() -> None:
    turn = a_turn(1, VerdictStatus.INCORRECT)
    turn.insert(7, measured(1, 9.5, ("w",)))
    (line,) = lines_of(stamped(*turn))
    assert "impossible latency" in line and "9.5x" not in line
    assert any("; impossible: w" in event_text(event) for event in stamped(*turn))


def test_the_best_speedup_so_far_stays_when_a_later_one_is_slower() -> None:
    fast, slow = a_turn(1, VerdictStatus.INCORRECT), a_turn(2, VerdictStatus.INCORRECT)
    fast.insert(7, measured(1, 2.5))
    slow.insert(7, measured(2, 1.2))
    assert all("2.5x" in line for line in lines_of(stamped(*fast, *slow)))


@pytest.mark.parametrize("status", [VerdictStatus.UNTIMED, VerdictStatus.INCORRECT])
def test_a_submission_that_was_cut_off_and_made_again_counts_once(status: VerdictStatus) -> None:
    whole = a_turn(1, status)
    end = next(at for at, event in enumerate(whole) if isinstance(event, VerdictReached)) + 1
    begin = next(at for at, event in enumerate(whole) if isinstance(event, ToolCallStarted) and event.index == 1)
    cut_off = ToolCallInterrupted(turn=1, index=1, call_id="c11")
    resumed, line = lines_of(
        stamped(*whole[:end], RunResumed(pid=1, checkpoint=True), cut_off, *whole[begin:], *a_turn(2, status))[:-1]
    )
    assert resumed == "resumed; the 1.0 s since the last event count for no turn"
    outcome = ["untimed", "1", "correct"] if status.acceptable else ["incorrect", "-"]
    assert line.split()[3 : 3 + len(outcome)] == outcome


def test_an_interruption_is_no_time_of_a_turn() -> None:
    events = a_run(KNOWN)
    cut = next(at for at, event in enumerate(events) if event.type == "tool_finished")
    hour = timedelta(hours=1)
    before = stamped(*events[:cut])
    assert before[-1].time is not None
    resumed = RunResumed(pid=1, checkpoint=True).model_copy(update={"time": before[-1].time + hour})
    after = [event.model_copy(update={"time": event.time + hour}) for event in events[cut:] if event.time]
    told, first, second = lines_of([*before, resumed, *after])
    assert told == "resumed; the 60 min 00 s since the last event count for no turn"
    assert first.endswith(" 8.0 s") and second.endswith(" 8.0 s")


def test_times_of_a_submission_that_was_made_again_are_not_the_best_so_far() -> None:
    slow, fast = (
        Measured(turn=1, call_id="c11", sha256=SHA, times=Times(workloads=(), geomean_speedup=speedup))
        for speedup in (1.5, 2.5)
    )
    whole = a_turn(1, VerdictStatus.INCORRECT)
    end = next(at for at, event in enumerate(whole) if isinstance(event, VerdictReached)) + 1
    (line,) = lines_of(stamped(*whole[:end], fast, *whole[end - 2 : end], slow, *whole[end:]))
    assert "1.5x" in line


@pytest.mark.parametrize(("outcome", "told"), [("compile_error", "compile_error"), ("untimed", "compiles")])
def test_a_compilation_is_told_by_its_outcome(outcome: str, told: str) -> None:
    done = ToolFinished(
        turn=1, index=0, call_id="c10", name="compile", status="ok", text="words", data={"outcome": outcome}
    )
    (line,) = lines_of(stamped(reply(1, "compile"), done, TurnClosed(turn=1, calls=1, executed=1)))
    assert line.split()[1:3] == ["compile", told]


def a_turn_of(*calls: tuple[str, str, dict[str, str], bool]) -> str:
    """The outcome in the line of a turn of these calls (tool, status, data, executed), whose tokens are unknown."""
    done = [
        ToolFinished(
            turn=1, index=at, call_id=f"c1{at}", name=name, status=status, text="words", data=data, executed=executed
        )
        for at, (name, status, data, executed) in enumerate(calls)
    ]
    closed = TurnClosed(turn=1, calls=len(done), executed=sum(event.executed for event in done))
    (line,) = lines_of(stamped(reply(1, *(name for name, *_ in calls)), *done, closed))
    return line[38:].partition("  -  ")[0].strip()


READ, MISREAD, BASH = ("read", "ok", {}, True), ("read", "error", {}, True), ("bash", "timed_out", {}, True)
COMPILES = ("compile", "ok", {"outcome": "untimed"}, True)
FAILS = ("compile", "ok", {"outcome": "compile_error"}, True)
STOPPED = ("read", "error", {}, False)


@pytest.mark.parametrize(
    ("calls", "told"),
    [
        ((READ, READ), "ok"),
        ((MISREAD, READ), "read error"),
        ((MISREAD, MISREAD, BASH), "read error x2, bash timed_out"),
        ((MISREAD, COMPILES, READ), "read error, compiles"),
        ((COMPILES, MISREAD), "compiles, read error"),
        ((FAILS, COMPILES), "compile_error, compiles"),
        ((COMPILES, FAILS), "compile_error"),
        ((READ, STOPPED), "read not run"),
        ((MISREAD, ("profile", "ok", {"outcome": "profiled"}, True), COMPILES), "read error, compiles"),
    ],
)
def test_the_outcome_names_every_call_that_failed(calls: tuple, told: str) -> None:
    assert a_turn_of(*calls) == told


def test_the_step_in_flight_is_named_and_forgotten_when_it_is_done() -> None:
    progress, seen = ProgressLines(), []
    for event in a_run():
        progress.feed(event)
        seen.append(progress.status)
    assert seen[1] == "turn 1: waiting for the model"
    assert seen[2] == ""
    assert seen[5] == "turn 1: submit"
    assert seen[-1] == ""


def test_what_is_out_of_the_ordinary_gets_a_line_of_its_own() -> None:
    events = stamped(RunResumed(pid=1, checkpoint=True), ModelCallInterrupted(call=3), Nudged(call=4, text="go on"))
    resumed, interrupted, nudged = lines_of(events)
    assert resumed == "resumed"
    assert "its tokens stay unknown" in interrupted
    assert "asked for no tool" in nudged


def test_a_cache_miss_is_explained_when_it_happens_and_a_hit_is_no_news() -> None:
    hit = CacheChecked(call=2, turn=2, expected=9_000, observed=9_000)
    miss = CacheChecked(call=3, turn=3, expected=9_500, observed=0, why="the same beginning, but 412 s after")
    step = Compacted(call=3, turn=3, results={"a": "", "b": ""}, saved_tokens=4_000, rewritten_tokens=900, why="")
    assert lines_of(stamped(hit, step, miss)) == [
        "2 old results became a digest: each later request has 4,000 tokens less, 900 are written anew, once",
        "request 3 read 0 of 9,500 expected cached tokens: the same beginning, but 412 s after",
    ]


def test_a_provider_that_keeps_half_of_every_request_is_told_of_once() -> None:
    def miss(call: int, share: float, why: str) -> CacheChecked:
        return CacheChecked(call=call, turn=call, expected=1_000 * call, observed=int(1_000 * call * share), why=why)

    half = [miss(at, 0.5, f"{at} s after the request before: the provider did not use all") for at in range(2, 30)]
    other = miss(30, 0.5, "the same beginning, but other parameters: seed")
    none = [miss(at, 0.0, f"{at} s after the request before: the provider did not use all") for at in range(31, 40)]
    told = lines_of(stamped(*half, other, *none))
    assert [line.split()[1] for line in told] == ["2", "30", "31"]


def test_what_came_of_the_confirmation_gets_a_line() -> None:
    chosen = Choice(sha256=SHA, turn=3, call_id="c31", geomean_speedup=2.0)
    progress = ProgressLines()
    made, said, nothing = stamped(
        SelectionMade(selection=chosen, provisional=None, why="the fastest"),
        SelectionConfirmed(sha256=SHA, confirmed=False, note="refused when judged again: incorrect"),
        SelectionConfirmed(sha256=None, confirmed=None, note="nothing to confirm"),
    )
    assert progress.feed(made) is None and progress.status == "confirming turn 3"
    assert progress.feed(said) == "aaaaaaaaaaaa: refused when judged again: incorrect" and progress.status == ""
    assert progress.feed(nothing) is None
