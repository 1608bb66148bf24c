"""A verdict and a profile, worded for a model: what they find in few tokens, nothing that its first message says.

Covers the answers to submit, compile and profile; the outcome stands in the first line. How to read them is told once,
in the beginning of the conversation (agent/prompt.py). Does not cover: what people read (verdict_text, compile_text,
profile_text).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from d2k_agent.config import PROFILE_TOKENS
from d2k_agent.contract import Check, JobKind, Verdict, VerdictStatus, Violation
from d2k_agent.models.tokens import count_tokens
from d2k_agent.reports.brief_compile import MOST_TOKENS, brief_compile, within
from d2k_agent.reports.brief_profile import brief_profile
from d2k_agent.reports.measured_text import measured_of_verdict, policies, void_text
from d2k_agent.reports.sanitizer_text import sanitizer_text
from d2k_agent.reports.tables import UNKNOWN, number, size
from d2k_agent.reports.verdict_text import MOST_LINES, NO_BASELINE, NOT_SETTLED, check_text, nearest

MOST_VERDICT_TOKENS = 1_000
"""Of a verdict without the compiler's report, which has a bound of its own."""


def brief_answer(
    kind: JobKind, verdict: Verdict, change: str | None = None, profile_tokens: int = PROFILE_TOKENS
) -> str:
    """The answer to a job of that kind. A profile takes the place of the compiler's report.

    `change` is what a profile says against an earlier one, `profile_tokens` the most that a profile takes; of a job
    that asks for a profile, the most of the whole answer, also where there is none.

    Holds no paths, no machine's name and no durations of the evaluation, so that a recorded run replays.
    """
    if kind is JobKind.PROFILE:
        return _profile_answer(verdict, change, profile_tokens)
    parts = [within(text, MOST_VERDICT_TOKENS) for text in _judged(kind, verdict)]
    if verdict.profile is not None:
        parts.append(brief_profile(verdict.profile, change, profile_tokens))
    if verdict.sanitizer is not None:
        parts.append(sanitizer_text(verdict.sanitizer))
    if verdict.compile_report is not None and (kind.judges or verdict.profile is None):
        parts.append(brief_compile(verdict.compile_report))
    return "\n\n".join(parts)


def _profile_answer(verdict: Verdict, change: str | None, most_tokens: int) -> str:
    """Why there is no profile, or the verdict's notes, then the profile or the compiler's report in what is left."""
    most = min(MOST_VERDICT_TOKENS, most_tokens // 2 if verdict.profile is not None else most_tokens)
    text = "".join(f"{within(part, most)}\n\n" for part in _judged(JobKind.PROFILE, verdict))
    left = most_tokens - count_tokens(text)
    if verdict.profile is not None:
        text += brief_profile(verdict.profile, change, left)
    elif verdict.compile_report is not None and left > 0:
        text += brief_compile(verdict.compile_report, min(MOST_TOKENS, left))
    return within(text.strip(), most_tokens)


def _judged(kind: JobKind, verdict: Verdict) -> Iterator[str]:
    """The verdict where it is one, else its notes, if it has any."""
    if kind.judges or not verdict.status.acceptable:
        yield "\n".join(_verdict(verdict))
    elif verdict.notes:
        yield "\n".join(_notes(verdict))


def _verdict(verdict: Verdict) -> Iterator[str]:
    failures = list(_failures(verdict))
    yield _outcome(verdict, failures)
    yield from _shortened([_violation(lines, item) for lines, item in _violations(verdict)])
    yield from _shortened(failures)
    if verdict.status is VerdictStatus.UNTIMED:
        yield from nearest(verdict)
    if verdict.status is VerdictStatus.NOISY:
        yield NOT_SETTLED
    if verdict.status is VerdictStatus.PASSED:
        yield from _measured(verdict)
    yield from _notes(verdict)


def _outcome(verdict: Verdict, failures: Sequence[str]) -> str:
    """The status, and what is not said below: a message that a failed check or the compiler gives too is left to it."""
    if verdict.status is VerdictStatus.PASSED:
        speedup = verdict.geomean_speedup
        return "passed" if speedup is None else f"passed {number(speedup)}x"
    report, message = verdict.compile_report, verdict.message
    told = (
        (report is not None and report.error == message)
        or any(item.message == message for item in verdict.violations)
        or (bool(failures) and any(check.message and check.message in message for check in _failed(verdict)))
    )
    return f"{verdict.status}: {message}" if message and not told else str(verdict.status)


def _violations(verdict: Verdict) -> Iterator[tuple[list[int], Violation]]:
    """Each violation once, with every line that has it."""
    found: dict[tuple[str, str], tuple[list[int], Violation]] = {}
    for item in verdict.violations:
        lines, _ = found.setdefault((item.check, item.message), ([], item))
        lines += [] if item.line is None else [item.line]
    yield from found.values()


def _violation(lines: Sequence[int], violation: Violation) -> str:
    where = f"line{'s' * (len(lines) > 1)} {', '.join(map(str, lines))}, " if lines else ""
    return f"{where}{violation.check}: {violation.message}"


def _failed(verdict: Verdict) -> Iterator[Check]:
    yield from (check for result in verdict.workloads for check in result.checks if not check.passed)


def _failures(verdict: Verdict) -> Iterator[str]:
    for result in verdict.workloads:
        failed = [check for check in result.checks if not check.passed]
        for check in failed:
            yield f"{result.label}: {check_text(check)}" + (f": {check.message}" if check.message else "")
        if not failed and not result.status.acceptable and result.message not in verdict.message:
            yield f"{result.label}: {result.status}" + (f", {result.message}" if result.message else "")


def _shortened(lines: Sequence[str]) -> list[str]:
    more = [f"{len(lines) - MOST_LINES} more left out"] if len(lines) > MOST_LINES else []
    return [*lines[:MOST_LINES], *more]


def _measured(verdict: Verdict) -> Iterator[str]:
    """A row a workload: the claim stands for its clocks, which agree where a candidate passes."""
    measured = measured_of_verdict(verdict)
    hot = any(item.measurement.hot_ms is not None for item in measured.workloads)
    yield "workload speedup ms baseline_ms rel_norm" + " hot_ms" * hot
    for item in measured.workloads:
        times = (item.measurement.mean_ms, item.baseline.mean_ms if item.baseline else None)
        more = [number(item.measurement.hot_ms, 4)] if hot else []
        yield " ".join(
            [
                item.label,
                UNKNOWN if item.speedup is None else f"{number(item.speedup)}x",
                *(number(value, 4) for value in times),
                number(item.rel_norm),
                *more,
            ]
        )
    told = [f"timed by {policies(measured.workloads)}"]
    if measured.drift is not None:
        told.append(f"baseline moved {100 * measured.drift:.1f} %")
    told += _span("SM MHz", [item.measurement.sm_mhz for item in measured.workloads])
    told += _span("W", [item.measurement.power_w for item in measured.workloads])
    if verdict.peak_memory_bytes is not None:
        told.append(f"peak memory {size(verdict.peak_memory_bytes)}")
    yield ", ".join(told)
    if verdict.geomean_speedup is None:
        yield void_text(verdict.drift) or NO_BASELINE


def _span(unit: str, values: Sequence[float | None]) -> list[str]:
    known = [value for value in values if value is not None]
    return [f"{min(known):.0f}-{max(known):.0f} {unit}"] if known else []


def _notes(verdict: Verdict) -> Iterator[str]:
    yield from (f"note: {note}" for note in verdict.notes)
