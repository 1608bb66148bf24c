"""A verdict in words: for a model as a tool result, and for a person on the screen."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import indent

from d2k_agent.contract import Check, JobKind, Verdict, VerdictStatus, Violation
from d2k_agent.contract.wording import counted
from d2k_agent.reports.compile_text import compile_text
from d2k_agent.reports.measured_text import measured_of_verdict, measured_text, void_text
from d2k_agent.reports.profile_text import profile_text
from d2k_agent.reports.sanitizer_text import sanitizer_text
from d2k_agent.reports.tables import number, size

MOST_LINES = 12

NOT_MEASURED = (
    "There is no latency and no speedup, since candidates ran on the CPU: this one counts as correct, "
    "but it is not ranked."
)
NO_BASELINE = "There is no speedup, since no baseline was measured beside every workload: this one is not ranked."
NOT_SETTLED = (
    "The measurement did not settle, also not when it was repeated, so there is no latency and no rank. What was "
    "computed is correct: hand it in again."
)


def answer_text(kind: JobKind, verdict: Verdict, change: str | None = None) -> str:
    """The answer to a job of that kind, in words. `change` is what a profile says against an earlier one."""
    text = verdict_text(verdict) if kind.judges else compilation_text(verdict)
    return text if change is None or verdict.profile is None else f"{text}\n\n{change}"


def verdict_text(verdict: Verdict) -> str:
    """Status, message, what failed with values and limits, then what was measured.

    Holds no paths, no machine's name and no durations of the evaluation itself, so that a recorded run replays.
    """
    lines = _head(verdict)
    lines += _section("Failed checks:", list(_failures(verdict)))
    if verdict.status is VerdictStatus.UNTIMED:
        lines += ["", *nearest(verdict), NOT_MEASURED]
    if verdict.status is VerdictStatus.NOISY:
        lines += ["", NOT_SETTLED]
    if verdict.status is VerdictStatus.PASSED:
        lines += ["", *_measured(verdict)]
    return "\n".join(lines + _profiled(verdict) + _tail(verdict))


def compilation_text(verdict: Verdict) -> str:
    """The answer to a job that only compiles, or that looks at kernels: nothing is called correct.

    A profile takes the place of the compiler's report.
    """
    head = [] if verdict.status.acceptable else _head(verdict)
    tail = _tail(verdict) if verdict.profile is None else [*_profiled(verdict), *_notes(verdict)]
    checked = [] if verdict.sanitizer is None else [sanitizer_text(verdict.sanitizer)]
    return "\n".join(head + checked + tail).strip()


def _head(verdict: Verdict) -> list[str]:
    lines = [f"Status: {verdict.status}"]
    report = verdict.compile_report
    if verdict.message and not (report is not None and report.error == verdict.message):
        lines.append(verdict.message)
    return lines + _section("Rule violations:", [violation_text(item) for item in verdict.violations])


def _tail(verdict: Verdict) -> list[str]:
    lines = _notes(verdict)
    if verdict.compile_report is not None:
        lines += ["", compile_text(verdict.compile_report)]
    return lines


def _profiled(verdict: Verdict) -> list[str]:
    return [] if verdict.profile is None else ["", profile_text(verdict.profile)]


def _notes(verdict: Verdict) -> list[str]:
    return [f"Note: {note}" for note in verdict.notes]


def _section(title: str, items: list[str]) -> list[str]:
    if not items:
        return []
    more = [f"  {len(items) - MOST_LINES} more left out"] if len(items) > MOST_LINES else []
    return ["", title, *[indent(item, "  ") for item in items[:MOST_LINES]], *more]


def violation_text(violation: Violation) -> str:
    """Where a rule is broken, which, and what to do."""
    where = "" if violation.line is None else f"line {violation.line}, "
    return f"{where}{violation.check}: {violation.message}"


def nearest(verdict: Verdict) -> list[str]:
    """How near the limits a candidate that is correct without a GPU came, over everything that ran."""
    ran = [result for result in verdict.workloads if result.checks and not result.registered]
    worst: dict[str, Check] = {}
    for check in (check for result in ran for check in result.checks if check.output != "*"):
        known = worst.get(check.gate)
        if None not in (check.value, check.limit) and (known is None or nearness(check) > nearness(known)):
            worst[check.gate] = check
    near = [f"{gate} {_how_near(check)}" for gate, check in worst.items()]
    registered = sum(result.registered for result in verdict.workloads)
    not_run = {0: "", 1: ", not on the registered one"}.get(
        registered, f", on none of the {registered} registered ones"
    )
    return [f"Ran on {counted(len(ran), 'smoke and hidden workload')}{not_run}: {', '.join(near)}."] if near else []


def _how_near(check: Check) -> str:
    if not check.limit:
        return "without a difference"
    return f"at {'least' if is_share(check) else 'most'} {number(check.value)} of {number(check.limit)}"


def nearness(check: Check) -> float:
    """How near its limit a check came: larger is worse. Of a share that must be large, the smallest is the worst."""
    if check.value is None:
        return float("-inf")
    if is_share(check):
        return -check.value
    return check.value / check.limit if check.limit else check.value


def is_share(check: Check) -> bool:
    """Whether the value must be large, not small."""
    return check.gate.endswith("_share")


def _failures(verdict: Verdict) -> Iterator[str]:
    for result in verdict.workloads:
        failed = [check for check in result.checks if not check.passed]
        for check in failed:
            # A message that is the verdict's own was said above.
            message = "" if check.message and check.message in verdict.message else check.message
            yield f"{result.label}: {check_text(check)}" + (f": {message}" if message else "")
        if not failed and not result.status.acceptable:
            yield f"{result.label}: {result.status}" + (f", {result.message}" if result.message else "")


def check_text(check: Check) -> str:
    """One gate in words: what was compared, the value, the limit."""
    head = f"{check.output} {check.gate}"
    if check.value is not None:
        head += f" = {number(check.value, 4)}"
    if check.limit is not None:
        head += f" (limit {number(check.limit)})"
    return head


def _measured(verdict: Verdict) -> Iterator[str]:
    yield measured_text(measured_of_verdict(verdict))
    if verdict.peak_memory_bytes is not None:
        yield f"Peak memory: {size(verdict.peak_memory_bytes)}"
    if verdict.geomean_speedup is None:
        yield void_text(verdict.drift) or NO_BASELINE
