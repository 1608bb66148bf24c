"""A recording beside the run that replayed it: what its tools answered differently, and what of it is the machine's.

A run is replayed where it was not recorded: on another GPU, or on none. The evaluator's answers then differ in words
and numbers although it finds the same. The records tell the two apart: they know both machines and what was found.
"""

from __future__ import annotations

from dataclasses import dataclass

from d2k_agent.contract import Environment, VerdictStatus
from d2k_agent.models import Divergence, RecordedTurn, compare
from d2k_agent.records.events import ModelReplied, ToolFinished, VerdictReached
from d2k_agent.records.trace import Trace
from d2k_agent.records.verdicts import VerdictRecord

OF_MACHINE = ("device", "device_name", "target", "torch", "triton")
"""What of an environment decides how the evaluator words what it finds."""
RIGHT: tuple[str, ...] = (VerdictStatus.PASSED, VerdictStatus.UNTIMED, VerdictStatus.NOISY, "profiled", "sanitized")
"""Outcomes of a candidate that has nothing against it: which of them, the machine decides."""


@dataclass(frozen=True)
class Replayed:
    """The comparison. `recorded` and `replies` count the replies of the two runs.

    `of_machine` are results in which the evaluator found the same on two different machines; they count as no
    divergences. `before` and `now` are those machines, None where a run has no verdict: then nothing is explained.
    """

    divergences: tuple[Divergence, ...]
    recorded: int
    replies: int
    of_machine: tuple[Divergence, ...] = ()
    before: Environment | None = None
    now: Environment | None = None


def replayed(recording: Trace, run: Trace) -> Replayed:
    """Compare a recording with the run that replayed it."""
    before, now = _environment(recording), _environment(run)
    recorded_calls, calls = _calls(recording), _calls(run)
    found = compare(recorded_turns(recording), run.messages())
    of_machine: tuple[Divergence, ...] = ()
    if before is not None and now is not None and _differ(before, now):
        of_machine = tuple(
            item for item in found if _same_finding(_finding(recorded_calls, item), _finding(calls, item))
        )
    told = tuple(item for item in found if item not in of_machine)
    return Replayed(told, len(recorded_calls), len(calls), of_machine, before, now)


def recorded_turns(trace: Trace) -> tuple[RecordedTurn, ...]:
    """A run's replies with the results that followed each, in order."""
    return tuple(
        RecordedTurn(reply.message, tuple(call.text for call, _ in calls), reply.finish_reason)
        for reply, calls in _calls(trace)
    )


_Call = tuple[ToolFinished, VerdictRecord | None]


def _calls(trace: Trace) -> list[tuple[ModelReplied, list[_Call]]]:
    """Each reply with the results of its calls, and the verdict of those that submitted."""
    verdicts = {
        (event.turn, event.call_id): event.verdict for event in trace.events if isinstance(event, VerdictReached)
    }
    turns: list[tuple[ModelReplied, list[_Call]]] = []
    for event in trace.events:
        if isinstance(event, ModelReplied):
            turns.append((event, []))
        elif isinstance(event, ToolFinished) and turns:
            turns[-1][1].append((event, verdicts.get((event.turn, event.call_id))))
    return turns


def _environment(trace: Trace) -> Environment | None:
    return next((event.verdict.environment for event in trace.events if isinstance(event, VerdictReached)), None)


def _differ(before: Environment, now: Environment) -> bool:
    return any(getattr(before, name) != getattr(now, name) for name in OF_MACHINE)


def _finding(turns: list[tuple[ModelReplied, list[_Call]]], where: Divergence) -> tuple[object, ...] | None:
    """What the evaluator found in one call, in nothing that depends on the machine; None where it was not asked."""
    calls = turns[where.turn - 1][1] if where.turn <= len(turns) else []
    if where.index >= len(calls):
        return None
    call, verdict = calls[where.index]
    outcome = call.data.get("outcome")
    if outcome is None or outcome in RIGHT:
        return None if outcome is None else ("right",)
    if verdict is None:
        return (outcome,)
    failed = tuple(item.label for item in verdict.workloads if not item.status.acceptable)
    return (outcome, failed, tuple((item.check, item.line) for item in verdict.violations))


def _same_finding(before: tuple[object, ...] | None, now: tuple[object, ...] | None) -> bool:
    return before is not None and before == now
