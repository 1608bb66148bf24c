"""The winner is judged once more, under a fresh seed, before it stands for the run.

Covers: the attempts, their records, and what follows from them. Every attempt that was completed before a crash is
taken from the journal. Does not cover: who is selected (selection.py) or how a candidate is measured (evaluator).
"""

from __future__ import annotations

from d2k_agent.agent.parts import Confirm, Parts
from d2k_agent.catalog import IMPOSSIBLE
from d2k_agent.contract import MOST_DRIFT, Verdict, VerdictStatus
from d2k_agent.errors import MachineError
from d2k_agent.records import (
    Choice,
    Confirmation,
    ConfirmationMeasured,
    ConfirmationReached,
    ConfirmationTook,
    Event,
    SelectionConfirmed,
    cut,
)

WORTH_SAYING = 0.05
"""A confirmed speedup further from the submitted one than this fraction of it is pointed out."""

_STOPPED = "not confirmed: the run was asked to stop first; `d2k-agent score` measures its selection again"


def confirmed(parts: Parts, confirm: Confirm, choice: Choice) -> SelectionConfirmed:
    """What came of measuring `choice` again; a measurement that came to nothing is made twice.

    A requested stop waits for no measurement but the one in hand. Raises MachineError where nobody can judge; the run
    is then resumable.
    """
    found = _attempt(parts, confirm, choice.sha256, 1)
    if found is not None and _came_to_nothing(found):
        found = _attempt(parts, confirm, choice.sha256, 2)
    return _concluded(choice, None, _STOPPED) if found is None else conclusion(choice, found)


def _attempt(parts: Parts, confirm: Confirm, sha256: str, number: int) -> Confirmation | None:
    """The attempt of that number, from the journal where it was made; None where the run is to stop instead."""
    if parts.journal.confirmation(sha256, number) is None and not parts.run.stop_requested():
        parts.journal.append(*_records(sha256, number, confirm(parts.run.candidate(sha256))))
    return parts.journal.confirmation(sha256, number)


def _records(sha256: str, attempt: int, verdict: Verdict) -> list[Event]:
    if verdict.candidate_sha256 != sha256:
        raise MachineError(
            f"the verdict is about candidate {verdict.candidate_sha256}, but {sha256} was to be confirmed; restart the "
            "evaluator, then resume the run"
        )
    parts = cut(verdict)
    events: list[Event] = []
    if parts.times is not None:
        events.append(ConfirmationMeasured(sha256=sha256, attempt=attempt, times=parts.times))
    if parts.seconds:
        events.append(ConfirmationTook(sha256=sha256, attempt=attempt, seconds=parts.seconds))
    return [*events, ConfirmationReached(sha256=sha256, attempt=attempt, verdict=parts.verdict)]


def _came_to_nothing(found: Confirmation) -> bool:
    """True where another attempt may end otherwise: noise, or a baseline that moved."""
    void = found.verdict.status is VerdictStatus.PASSED and found.geomean_speedup is None
    return (void and _moved(found) is not None) or found.verdict.status is VerdictStatus.NOISY


def _moved(found: Confirmation) -> float | None:
    """How far the baseline moved, where that was too far for any ratio."""
    drift = found.times.drift if found.times else None
    return drift if drift is not None and drift > MOST_DRIFT else None


def conclusion(choice: Choice, found: Confirmation) -> SelectionConfirmed:
    """What the last attempt says of the selection."""
    status = found.verdict.status
    words = found.times.message if found.times else found.verdict.message
    if status is VerdictStatus.UNTIMED:
        return _concluded(choice, None, "not confirmed: nothing on this machine can measure the selection again")
    if status is not VerdictStatus.PASSED:
        return _concluded(choice, False, f"refused when judged again: {status}" + (f", {words}" if words else ""))
    if found.times is not None and found.times.impossible:
        return _concluded(choice, False, f"refused when judged again: {IMPOSSIBLE}, and that is not explained")
    speedup = found.geomean_speedup
    if speedup is None:
        return _concluded(choice, None, f"not confirmed: {_why_void(found)}")
    note = f"confirmed at {speedup:.3g} times the baseline, under a fresh seed"
    submitted = choice.geomean_speedup
    if submitted is not None and abs(speedup - submitted) > WORTH_SAYING * submitted:
        change = 100 * (speedup / submitted - 1)
        note += f"; that is {change:+.1f} % against the {submitted:.3g} of the submission, so take the confirmed one"
    return _concluded(choice, True, note, speedup)


def _why_void(found: Confirmation) -> str:
    drift = _moved(found)
    if drift is None:
        return "there is no baseline to compare it with"
    return (
        f"the baseline moved by {100 * drift:.1f} % during the measurement, twice in a row, so that its ratios are "
        "void; is something else at work on the GPU?"
    )


def _concluded(choice: Choice, held: bool | None, note: str, speedup: float | None = None) -> SelectionConfirmed:
    return SelectionConfirmed(sha256=choice.sha256, confirmed=held, note=note, speedup=speedup)
