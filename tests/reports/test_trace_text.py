"""A run's events, readable."""

from __future__ import annotations

import typing
from dataclasses import replace

import pytest

from d2k_agent.contract import Measurement, VerdictStatus
from d2k_agent.contract.modelled import ModelledLatency, ModelledWorkload
from d2k_agent.records import (
    BudgetTold,
    CacheChecked,
    Compacted,
    ConfirmationMeasured,
    ConfirmationReached,
    ConfirmationTook,
    EvaluationTook,
    Event,
    Measured,
    ModelCallFailed,
    ModelCallInterrupted,
    ModelCallStarted,
    Modelled,
    Nudged,
    PolicyStopped,
    RunInterrupted,
    RunResumed,
    SelectionConfirmed,
    ToolCallInterrupted,
    ToolFinished,
    cut,
)
from d2k_agent.records.verdicts import Times, WorkloadTime
from d2k_agent.reports.runs import RunSummary, runs_table
from d2k_agent.reports.trace_text import MOST_BODY_CHARS, TraceText, event_text
from tests.reports.events import KNOWN, SHA, a_run, a_turn, reply, stamped, verdict
from tests.reports.measured import measurement, timed, workload


def test_every_event_of_a_run_is_told_in_words() -> None:
    texts = [event_text(event) for event in a_run(KNOWN)]
    assert "conversation started with the tools write, submit" in texts[0] and "system: do it" in texts[0]
    assert "turn 1: reply 1 in 1.5 s; tokens: 10 uncached, 200 cache write, 3,000 cache read, 40 output" in texts[2]
    assert "-> submit path: solution.py" in texts[2]
    assert any("turn 1: aaaaaaaaaaaa is incorrect" in text for text in texts)
    assert "finished: turn_limit after 2 turns" in texts[-1]


TIMED = Measurement(mean_ms=2.0, calls=10, batches=5, outside_ms=2.0, policy="events_batch")
TIMES = Times(workloads=(WorkloadTime(label="w", measurement=TIMED, speedup=2.5),), geomean_speedup=2.5)
KEY = {"turn": 1, "call_id": "c11", "sha256": SHA}
RARE: list[tuple[Event, str]] = [
    (RunResumed(pid=7, checkpoint=True), "resumed by process 7"),
    (RunInterrupted(node="evaluate", reason="Ctrl-C"), "interrupted in evaluate: Ctrl-C"),
    (ModelCallFailed(call=3, reason="no such model", may_be_billed=False), "model call 3 failed: no such model"),
    (ModelCallInterrupted(call=3), "model call 3 was interrupted"),
    (
        CacheChecked(call=3, turn=2, expected=9000, observed=0, why="the same beginning, but 412 s after"),
        "request 3 read 0 of 9,000 expected cached tokens: the same beginning, but 412 s after",
    ),
    (
        Compacted(call=3, turn=2, results={}, saved_tokens=9, rewritten_tokens=3, why="4 results"),
        "before request 3 old results were shortened: 4 results",
    ),
    (Nudged(call=3, text="go on"), "the model was told to go on"),
    (BudgetTold(turn=4, text="6 turns are left"), "turn 4: the model was told its budget"),
    (ToolCallInterrupted(turn=1, index=1, call_id="c11"), "turn 1: call 2 was interrupted"),
    (
        PolicyStopped(turn=3, policy="plateau:turns=2,percent=1", why="nothing moved"),
        "turn 3: the stopping policy plateau:turns=2,percent=1 ends the run: nothing moved",
    ),
    (
        Modelled(**KEY, modelled=ModelledLatency("h200", (ModelledWorkload("w", 2.0),))),
        "aaaaaaaaaaaa: modelled 2 ms (geometric mean), not measured, for h200",
    ),
    (Measured(**KEY, times=TIMES), "turn 1: aaaaaaaaaaaa speedup 2.5 (w 2 ms)"),
    (
        ConfirmationMeasured(sha256=SHA, attempt=2, times=TIMES.model_copy(update={"drift": 0.004})),
        "confirmation 2: aaaaaaaaaaaa speedup 2.5 (w 2 ms); the baseline moved by 0.4 %",
    ),
    (
        ConfirmationReached(sha256=SHA, attempt=1, verdict=verdict(VerdictStatus.NOISY)),
        "confirmation 1: aaaaaaaaaaaa is noisy",
    ),
    (ConfirmationTook(sha256=SHA, attempt=1, seconds={"timing": 9.5}), "confirmation 1: judged in 9.5 s"),
    (EvaluationTook(**KEY, seconds={"static": 0.5, "late": 61.0}), "turn 1: evaluated in 1 min 02 s"),
    (SelectionConfirmed(sha256=None, confirmed=None, note="nothing to confirm"), "confirmation: nothing to confirm"),
]


@pytest.mark.parametrize(("event", "words"), RARE)
def test_what_happens_rarely_is_told_too(event: Event, words: str) -> None:
    assert words in event_text(stamped(event)[0])


def test_a_reply_that_asks_for_no_tool_is_told_without_the_number_of_a_turn() -> None:
    ended = [*a_turn(1, VerdictStatus.INCORRECT), ModelCallStarted(call=2, turn=2), reply(2)]
    told = [event_text(event).partition("  ")[2].lstrip(" 0123456789") for event in stamped(*ended)]
    assert told[-2] == "model call 2"
    assert told[-1].startswith("reply 2 (no turn: it asks for no tool) in ")
    assert not any("turn 2" in text.splitlines()[0] for text in told)


def test_no_kind_of_event_is_left_untold() -> None:
    told = {type(event) for event in a_run()} | {type(event) for event, _ in RARE}
    assert told == set(typing.get_args(Event))


def a_confirmation(attempt: int = 1) -> list[Event]:
    """Two registered workloads measured again, the profiler's clock among the others, as three events."""
    again = tuple(
        replace(workload(label, ms, 2 * ms), measurement=measurement(ms, device_ms=ms - 1))
        for label, ms in (("small", 12.5), ("large", 130.5))
    )
    parts = cut(replace(timed(), workloads=again))
    assert parts.times is not None
    return [
        ConfirmationMeasured(sha256=SHA, attempt=attempt, times=parts.times),
        ConfirmationTook(sha256=SHA, attempt=attempt, seconds={"timing": 9.5}),
        ConfirmationReached(sha256=SHA, attempt=attempt, verdict=parts.verdict),
    ]


def test_a_confirmation_ends_with_the_table_of_its_four_clocks() -> None:
    teller = TraceText()
    *before, reached = (teller.event(event) for event in stamped(*a_confirmation()))
    assert [text.count("\n") for text in before] == [0, 0]
    head, columns, small, large, *rest = reached.splitlines()
    assert head.endswith("confirmation 1: aaaaaaaaaaaa is passed")
    assert columns.split()[:5] == ["workload", "claim", "outside", "audit", "device"]
    assert small.split()[:9] == "small 12.5 ms 12.51 ms 12.62 ms 11.5 ms".split()
    assert "129.5 ms" in large and any("Timed by events_batch on NVIDIA H200" in line for line in rest)
    assert all(line.startswith("    ") for line in (columns, small, large, *rest))


def test_an_attempt_that_was_cut_off_lends_its_table_to_no_later_one() -> None:
    measured, _, reached = a_confirmation()
    teller = TraceText()
    told = [teller.event(event) for event in stamped(measured, RunResumed(pid=7, checkpoint=True), reached)]
    assert [text.count("\n") for text in told] == [0, 0, 0]


def test_a_confirmation_that_measured_nothing_has_no_table() -> None:
    empty = ConfirmationMeasured(sha256=SHA, attempt=1, times=Times(workloads=()))
    noisy = ConfirmationReached(sha256=SHA, attempt=1, verdict=verdict(VerdictStatus.NOISY))
    teller = TraceText()
    assert [teller.event(event).count("\n") for event in stamped(empty, noisy)] == [0, 0]


def test_long_bodies_are_cut_and_the_cut_is_said() -> None:
    body = "x" * (MOST_BODY_CHARS + 1500)
    event = ToolFinished(turn=1, index=0, call_id="c", name="read", status="ok", text=body)
    text = event_text(stamped(event)[0])
    assert "[1,500 more characters; --json prints them]" in text
    assert len(text) < MOST_BODY_CHARS + 200


def test_runs_are_listed_and_what_is_unknown_says_so() -> None:
    damaged = RunSummary("r2", "runs/r2", "damaged", None, None, None, None, 10)
    good = RunSummary("r1", "runs/r1", "turn_limit", 9, "scripted/x", "muon", ("L1",), 2048)
    text = runs_table([good, damaged])
    assert text.splitlines()[1].split() == ["r1", "turn_limit", "9", "scripted/x", "2.0", "KiB"]
    assert text.splitlines()[2].split() == ["r2", "damaged", "unknown", "unknown", "10", "B"]
    assert damaged.data()["turns"] is None
