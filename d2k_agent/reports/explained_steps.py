"""What an evaluation checked, in which order, and how each step ended, as a table.

Covers: the steps with their durations, the check that decided, the series of calls. Does not cover: values of gates,
latencies.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from d2k_agent.contract import Verdict, VerdictStatus, WorkloadResult
from d2k_agent.reports.tables import UNKNOWN, number, seconds, table

STEPS = {
    "static": "the source, against the task's rules",
    "compile": "every launch of run() at the registered shapes",
    "precision": "names, precision and memory order of the kernels, by the task's rules",
    "profile": "one call under the profiler",
    "baseline": "the baseline's latencies, where they are not known yet",
    "correctness": "smoke workloads and hidden variations, new inputs before each call",
    "captured": "whether all of run() compiles at the registered shapes as well",
    "launches": "whether run() launches a kernel of its own",
    "late": "the expensive hidden variations",
    "timing": "latencies, and the clocks that check them",
    "device clock": "the profiler's clock",
}
"""By the name that `seconds` of a verdict has; in the order of an evaluation."""
PARTS = {
    "tuning": "of it in first calls, which compile and tune",
    "timed": "of it in timed calls, the baseline's included",
}
CONFIRMATION = "only when a run's winner is confirmed"
_TOLD_IF_THERE = frozenset(("profile", "baseline"))
_CALLS = re.compile(r"[\d,]+ calls?")


def steps_that_ran(verdict: Verdict) -> list[str]:
    """Names of the steps that ran, in their order; parts of a step (timing.tuning) are left out."""
    return [name for name in verdict.seconds if "." not in name]


def deciding_step(verdict: Verdict) -> str | None:
    """The step that ended the evaluation; None where none did, and where the verdict does not tell."""
    ran = steps_that_ran(verdict)
    return None if verdict.status.acceptable or not ran else ran[-1]


def decided_by(verdict: Verdict) -> str:
    """The check that decided, and in which step, in one line."""
    if verdict.status.acceptable:
        return "nothing: no check failed"
    step = deciding_step(verdict)
    failed = [result for result in verdict.workloads if not result.status.acceptable]
    if verdict.violations:
        first = verdict.violations[0]
        what = first.check + ("" if first.line is None else f" at line {first.line}")
    elif failed:
        gates = [f"{check.output} {check.gate}" for check in failed[0].checks if not check.passed]
        what = f"{gates[0].removeprefix('* ') if gates else failed[0].status} on {failed[0].label}"
    else:
        what = str(verdict.status)
    return what + (f", in the step {step}" if step else "")


def cut_short(verdict: Verdict) -> str | None:
    """Why later steps did not run, where a step failed; None for a verdict that no step ended."""
    if verdict.status.acceptable:
        return None
    step = deciding_step(verdict)
    return "the candidate failed before" if step is None else f"the step {step} decided before"


def steps_text(verdict: Verdict) -> str:
    """A row a step: how it ended, how long it took, what it looked at; a step that did not run says why."""
    ran = steps_that_ran(verdict)
    if not ran:
        return "The verdict does not say which steps ran."
    shown = [name for name in STEPS if name in ran or name not in _TOLD_IF_THERE]
    names = [*shown, *[name for name in ran if name not in STEPS]]
    rows = [row for name in names for row in _rows(verdict, name, ran)]
    return table(("step", "outcome", "took", "looked at, or why it did not run"), rows, ("took",))


def series_text(verdict: Verdict) -> str | None:
    """A row a series of calls that ran; None where none did."""
    rows = [
        (
            result.label,
            _calls(result),
            "correct" if result.status.acceptable else str(result.status),
            "" if result.rel_norm is None else number(result.rel_norm),
        )
        for result in verdict.workloads
        if not result.registered
    ]
    return table(("series", "calls", "outcome", "worst rel_norm"), rows, ("calls", "worst rel_norm")) if rows else None


def _calls(result: WorkloadResult) -> str:
    if not result.status.acceptable:
        return "cut short"
    return result.message if _CALLS.fullmatch(result.message) else UNKNOWN


def _rows(verdict: Verdict, name: str, ran: list[str]) -> Iterator[tuple[str, str, str, str]]:
    """A step, then its parts where the verdict counts them."""
    what = STEPS.get(name, "")
    if name in ran:
        yield name, _outcome(verdict, name), seconds(verdict.seconds[name]), what
    elif name == "late" and "timing" in ran:
        yield name, "see timing", "-", f"{what}, on a GPU at the registered shapes"
    else:
        yield name, "did not run", "-", _why_not(verdict, name)
    for part, told in PARTS.items():
        spent = verdict.seconds.get(f"{name}.{part}")
        if spent:
            yield f"- {part}", "", seconds(spent), told


def _outcome(verdict: Verdict, name: str) -> str:
    if name == deciding_step(verdict):
        return "did not settle" if verdict.status is VerdictStatus.NOISY else "failed"
    if name == "device clock" and verdict.status is VerdictStatus.PASSED and not _profiled(verdict):
        return "nothing to do"
    report = verdict.compile_report
    if report is None:
        return "nothing to do" if name in ("compile", "precision", "captured") else "passed"
    if report.error is not None and name in ("compile", "precision"):
        return "not captured" if name == "compile" else "nothing to do"
    return "passed"


def _profiled(verdict: Verdict) -> bool:
    """Whether a confirmation asked for the profiler's clock, or a call that could not be captured did."""
    clocked = any(result.measurement and result.measurement.device_ms for result in verdict.workloads)
    return clocked or any(note.startswith("no device clock") for note in verdict.notes)


def _why_not(verdict: Verdict, name: str) -> str:
    if name == "device clock":
        return CONFIRMATION
    if name == "timing" and verdict.environment.device == "cpu":
        return "nothing is timed on a CPU"
    if name == "late" and verdict.status.acceptable:
        registered = any(result.registered for result in verdict.workloads)
        on_cpu = registered and verdict.environment.device == "cpu"
        return "none of this task is for a CPU" if on_cpu else "smoke workloads alone were asked for"
    step, known = deciding_step(verdict), list(STEPS)
    if step is None or step not in known or known.index(name) < known.index(step):
        return "not asked for"
    return f"{step} decided before"
