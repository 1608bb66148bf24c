"""What compute-sanitizer found, in a few lines: counts, then the first error of each kind."""

from __future__ import annotations

from collections.abc import Iterator

from d2k_agent.contract import SanitizerCheck, SanitizerError, SanitizerReport
from d2k_agent.contract.wording import counted

MEANING = {
    SanitizerCheck.MEMCHECK: "accesses out of bounds or misaligned",
    SanitizerCheck.RACECHECK: "accesses to shared memory without a barrier between them",
    SanitizerCheck.INITCHECK: "reads of global memory that nothing was written to",
}
"""What each check looks for."""


def sanitizer_text(report: SanitizerReport) -> str:
    """Bounded in length; holds no paths and no addresses, so that a recorded run replays."""
    return "\n".join(_lines(report))


def _lines(report: SanitizerReport) -> Iterator[str]:
    where = f"one call of run() on each of {', '.join(report.workloads)}"
    if report.clean:
        yield f"{report.check}: nothing found, in {where} ({report.tool}). It looked for {MEANING[report.check]}."
    else:
        warnings = f" and {counted(report.warnings, 'warning')}" if report.warnings else ""
        yield f"{report.check}: {counted(report.errors, 'error')}{warnings}, in {where} ({report.tool})."
    for error in report.first:
        yield from _error(error)
    yield from (f"note: {note}" for note in report.notes)


def _error(error: SanitizerError) -> Iterator[str]:
    where = [f"in {error.kernel}"] if error.kernel else []
    where += [f"solution.py line {error.line}"] if error.line is not None else []
    times = f" ({error.printed} printed)" if error.printed > 1 else ""
    yield f"- {error.kind}, {', '.join(where) or 'in an unnamed kernel'}{times}"
    if error.details:
        yield f"  {'; '.join(error.details)}"
