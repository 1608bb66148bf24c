"""A recorded run, read back. A reader needs this module and the folder, nothing else.

Covers: the events of a run and what they say together (submissions, the conversation, totals). Does not cover:
driving a run, or how any of it is printed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from d2k_agent.contract import VerdictStatus
from d2k_agent.contract.modelled import ModelledLatency
from d2k_agent.errors import MachineError
from d2k_agent.models import Message
from d2k_agent.records.events import (
    BudgetTold,
    ConfirmationMeasured,
    ConfirmationReached,
    ConversationStarted,
    Event,
    Measured,
    Modelled,
    ModelReplied,
    Nudged,
    RunFinished,
    RunResumed,
    SelectionConfirmed,
    Submitted,
    ToolCallInterrupted,
    ToolFinished,
    TurnClosed,
    VerdictReached,
)
from d2k_agent.records.folder import RunFolder
from d2k_agent.records.log import check_sequence, read_events
from d2k_agent.records.run_record import RunRecord
from d2k_agent.records.totals import Totals, total
from d2k_agent.records.verdicts import Times, VerdictRecord


@dataclass(frozen=True)
class Submission:
    """A candidate handed in at a turn, with what was found and what was measured (`times` None: nothing was)."""

    turn: int
    call_id: str
    sha256: str
    verdict: VerdictRecord
    times: Times | None
    modelled: ModelledLatency | None = None
    """What a model says where nothing was measured; never part of a score."""

    def __post_init__(self) -> None:
        if self.verdict.status is VerdictStatus.PASSED and not self.registered <= self.measured:
            missing = ", ".join(sorted(self.registered - self.measured))
            raise ValueError(f"submission of turn {self.turn} passed without a measurement of {missing}")

    @property
    def registered(self) -> frozenset[str]:
        """Labels of the registered workloads that the verdict covers."""
        return frozenset(item.label for item in self.verdict.workloads if item.registered)

    @property
    def measured(self) -> frozenset[str]:
        """Labels of the workloads that have a measurement."""
        return self.times.measured if self.times else frozenset()

    @property
    def impossible(self) -> bool:
        """True when a latency is below what the hardware allows, and nobody has explained it."""
        return self.times is not None and bool(self.times.impossible)

    @property
    def geomean_speedup(self) -> float | None:
        """The candidate's score against the baseline, None unless everything was measured."""
        return self.times.geomean_speedup if self.times and self.verdict.status is VerdictStatus.PASSED else None

    def eligible(self, workloads: Collection[str]) -> bool:
        """True when it may stand for a run: passed, and measured on each of `workloads` (labels), by what can be."""
        measured = self.geomean_speedup is not None and set(workloads) <= self.measured & self.registered
        return measured and not self.impossible


def submissions(events: Iterable[Event]) -> tuple[Submission, ...]:
    """The submissions in order. One that ran twice (same turn, call and candidate) counts once, the last time.

    One that a crash cut off counts when its call was made again: what was recorded before is of no submission.
    """
    parts: dict[tuple[int, str, str], list[Event]] = {}
    for event in events:
        if isinstance(event, Submitted):
            parts[event.turn, event.call_id, event.sha256] = []
        elif isinstance(event, VerdictReached | Measured | Modelled):
            parts.setdefault((event.turn, event.call_id, event.sha256), []).append(event)
        elif isinstance(event, ToolCallInterrupted):
            parts = {key: own for key, own in parts.items() if key[:2] != (event.turn, event.call_id)}
    found = []
    for (turn, call_id, sha256), own in parts.items():
        verdict = next((item.verdict for item in own if isinstance(item, VerdictReached)), None)
        times = next((item.times for item in own if isinstance(item, Measured)), None)
        if verdict is not None and not (verdict.status is VerdictStatus.PASSED and times is None):
            modelled = next((item.modelled for item in own if isinstance(item, Modelled)), None)
            found.append(Submission(turn, call_id, sha256, verdict, times, modelled))
    return tuple(found)


@dataclass(frozen=True)
class Confirmation:
    """A selected candidate judged once more: attempt number `attempt`, with what was found and what was measured."""

    sha256: str
    attempt: int
    verdict: VerdictRecord
    times: Times | None

    @property
    def geomean_speedup(self) -> float | None:
        """The confirmed score against the baseline, None where there is none."""
        return self.times.geomean_speedup if self.times and self.verdict.status is VerdictStatus.PASSED else None


def confirmations(events: Iterable[Event]) -> tuple[Confirmation, ...]:
    """The attempts that were completed, in order. One that was made twice counts once, the last time.

    Times without what was found are of an attempt that a crash cut off: no later one takes them over.
    """
    times: dict[tuple[str, int], Times] = {}
    found: dict[tuple[str, int], Confirmation] = {}
    for event in events:
        if isinstance(event, RunResumed):
            times.clear()
        elif isinstance(event, ConfirmationMeasured):
            times[event.sha256, event.attempt] = event.times
        elif isinstance(event, ConfirmationReached):
            key = (event.sha256, event.attempt)
            found[key] = Confirmation(*key, event.verdict, times.pop(key, None))
    return tuple(found.values())


def message_of(event: Event) -> tuple[Message, ...]:
    """What `event` adds to the end of the conversation: the one place that says so, for the loop and for readers."""
    match event:
        case ConversationStarted():
            return tuple(event.messages)
        case ModelReplied():
            return (event.message,)
        case ToolFinished():
            return ({"role": "tool", "tool_call_id": event.call_id, "content": event.text},)
        case Nudged() | BudgetTold():
            return ({"role": "user", "content": event.text},)
        case _:
            return ()


@dataclass(frozen=True)
class Trace:
    """One run: its record and its events, in order."""

    run: RunRecord
    events: tuple[Event, ...]

    @cached_property
    def submissions(self) -> tuple[Submission, ...]:
        """Every submission, once."""
        return submissions(self.events)

    @cached_property
    def confirmations(self) -> tuple[Confirmation, ...]:
        """Every attempt to confirm a selection."""
        return confirmations(self.events)

    @property
    def confirmed(self) -> SelectionConfirmed | None:
        """What came of confirming the selection that stands, None while nothing has."""
        return next((event for event in reversed(self.events) if isinstance(event, SelectionConfirmed)), None)

    @property
    def refused(self) -> frozenset[str]:
        """Candidates that failed when they were judged again."""
        ended = (event for event in self.events if isinstance(event, SelectionConfirmed) and event.confirmed is False)
        return frozenset(event.sha256 for event in ended if event.sha256 is not None)

    @cached_property
    def totals(self) -> Totals:
        """Tokens, cost and time of the model's calls."""
        return total(self.events)

    @property
    def turns(self) -> int:
        """Turns that were completed."""
        return sum(1 for event in self.events if isinstance(event, TurnClosed))

    @property
    def finished(self) -> RunFinished | None:
        """The run's last event, None while it is not over."""
        return next((event for event in reversed(self.events) if isinstance(event, RunFinished)), None)

    def messages(self) -> list[Message]:
        """The whole conversation."""
        return [message for event in self.events for message in message_of(event)]


def read_trace(folder: Path) -> Trace:
    """Read the run in `folder`, also while it is being written.

    Raises UsageError when there is no run, MachineError when its files are damaged.
    """
    run = RunFolder(folder)
    record = run.read_record()
    events = read_events(run.events)[0] if run.events.exists() else []
    check_sequence(run.events, events)
    _check_turns(run.events, events)
    return Trace(record, tuple(events))


def _check_turns(path: Path, events: Iterable[Event]) -> None:
    """Raise MachineError unless turns are closed as 1, 2, 3 and so on: a turn's number is its place in the run."""
    closed = (event.turn for event in events if isinstance(event, TurnClosed))
    for expected, turn in enumerate(closed, start=1):
        if turn != expected:
            raise MachineError(
                f"{path}: turn {expected} is closed as number {turn}: lines were changed; restore the file from a copy"
            )
