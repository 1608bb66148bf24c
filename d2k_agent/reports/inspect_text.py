"""What compilers say of a candidate's launches for several targets: warnings first, then a row for what is alike."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from d2k_agent.contract import CompileReport, KernelReport, Verdict
from d2k_agent.contract.wording import counted
from d2k_agent.reports.compile_text import failure_words, importance, not_launched, spilled
from d2k_agent.reports.tables import NOT_READ, UNKNOWN, count, table
from d2k_agent.reports.verdict_data import verdict_data
from d2k_agent.reports.verdict_text import violation_text

MOST_WARNINGS = 20
MOST_GRIDS = 2
RIGHT = ("launches", "warps", "stages", "registers", "spill B", "shared B", "tmem", "load/store B")


@dataclass(frozen=True)
class Inspected:
    """The answer for one target. `kept_since` is when it was made (ISO 8601, UTC) where it comes from the cache."""

    target: str
    verdict: Verdict
    kept_since: str | None = None


def inspect_data(reports: Sequence[Inspected]) -> dict[str, Any]:
    """The JSON object of the command; what a verdict holds is told by verdict_data()."""
    return {
        "reports": [
            {"target": item.target, "kept_since": item.kept_since, "verdict": verdict_data(item.verdict)}
            for item in reports
        ]
    }


def inspect_text(reports: Sequence[Inspected]) -> str:
    """The reports one after the other, and how to read them."""
    parts = ["\n".join(_lines(item)) for item in reports]
    if any(launched_kernels(item) for item in reports):
        parts.append("\n".join(_legend()))
    return "\n\n".join(parts)


def launched_kernels(item: Inspected) -> list[KernelReport]:
    """The kernel variants that the candidate launches on the target, as far as they compile."""
    report = item.verdict.compile_report
    return [] if report is None else [kernel for kernel in report.kernels if kernel.launches]


def _lines(item: Inspected) -> Iterator[str]:
    report, verdict = item.verdict.compile_report, item.verdict
    if report is None:
        yield f"{item.target}: {verdict.status}: {verdict.message}"
        yield from (f"  {violation_text(violation)}" for violation in verdict.violations)
        return
    launched = sorted(launched_kernels(item), key=importance)
    rows = _rows(launched)
    yield _outcome(report, len(launched), len(rows))
    if item.kept_since is not None:
        yield f"kept since {item.kept_since}, from the same source, task and versions; --fresh compiles anew"
    if not verdict.status.acceptable and verdict.message != report.error:
        yield f"{verdict.status}: {verdict.message}"
    yield from (f"warning: {warning}" for warning in report.warnings[:MOST_WARNINGS])
    if len(report.warnings) > MOST_WARNINGS:
        yield f"{counted(len(report.warnings) - MOST_WARNINGS, 'more warning')} left out"
    if launched:
        yield ""
        yield table(_header(report), rows, (*RIGHT, _header(report)[7]))
    yield from not_launched([kernel for kernel in report.kernels if not kernel.launches])
    if report.not_compiled:
        yield f"{counted(report.not_compiled, 'autotuner configuration')} left out"


def _outcome(report: CompileReport, launched: int, rows: int) -> str:
    where = f"{report.target} ({report.architecture}, Triton {report.triton_version})"
    if report.error is not None:
        return f"{where}: {failure_words(report)}: {report.error}"
    alike = f", in {counted(rows, 'row')}, those that need and do the same in one" if rows < launched else ""
    return f"{where}: {counted(launched, 'kernel variant')} launched at {', '.join(report.workloads)}{alike}"


def _header(report: CompileReport) -> tuple[str, ...]:
    limit = "" if report.shared_limit_bytes is None else f" of {report.shared_limit_bytes:,}"
    multiprocessors = "" if report.multiprocessors is None else f" for {report.multiprocessors} SMs"
    names = ("kernel:line", "launches", f"grids{multiprocessors}", "warps", "stages", "registers", "spill B")
    return (*names, f"shared B{limit}", "matrix", "TMA", "tmem", "load/store B", "occupancy (estimate)")


def _rows(kernels: Sequence[KernelReport]) -> list[tuple[str, ...]]:
    """A row for all variants of a kernel that need and do the same; launches add up, grids stand side by side."""
    alike: dict[tuple[str, ...], list[KernelReport]] = {}
    for kernel in kernels:
        alike.setdefault(_properties(kernel), []).append(kernel)
    rows = []
    for (name, *rest), variants in alike.items():
        grids = dict.fromkeys(grid for kernel in variants for found in kernel.grids.values() for grid in found)
        told = ["x".join(map(str, grid)) for grid in grids]
        more = [f"{len(told) - MOST_GRIDS} more"] * (len(told) > MOST_GRIDS)
        launches = sum(kernel.launches for kernel in variants)
        rows.append((name, count(launches), ", ".join([*told[:MOST_GRIDS], *more]) or UNKNOWN, *rest))
    return rows


def _properties(kernel: KernelReport) -> tuple[str, ...]:
    """The columns that tell variants apart, the name first."""
    return (
        kernel.name if kernel.source_line is None else f"{kernel.name}:{kernel.source_line}",
        str(kernel.num_warps),
        str(kernel.num_stages),
        count(kernel.registers),
        count(spilled(kernel)),
        count(kernel.shared_bytes),
        UNKNOWN if kernel.matrix is None else ", ".join(kernel.matrix) or "none",
        _tma(kernel),
        NOT_READ if kernel.tensor_memory_columns is None else str(kernel.tensor_memory_columns),
        f"{_widest(kernel.global_loads)}/{_widest(kernel.global_stores)}",
        _occupancy(kernel),
    )


def _tma(kernel: KernelReport) -> str:
    used = [word for word in ("load", "store") if kernel.instructions.get(f"tma_{word}")]
    return ", ".join(used) or "none"


def _widest(accesses: dict[str, int] | None) -> str:
    """The widest access of a thread in bytes, with the narrowest before it where they differ."""
    if accesses is None:
        return UNKNOWN
    sizes = sorted(map(int, accesses))
    return NOT_READ if not sizes else f"{sizes[0]}" if len(sizes) == 1 else f"{sizes[0]}-{sizes[-1]}"


def _occupancy(kernel: KernelReport) -> str:
    found = kernel.occupancy
    if found is None:
        return UNKNOWN
    share = round(100 * found.warps / found.most_warps)
    blocks = counted(found.blocks, "block")
    return f"{blocks}, {found.warps} of {found.most_warps} warps ({share} %): {', '.join(found.limiters)}"


def _legend() -> Iterator[str]:
    yield "Nothing ran: this says that kernels compile and fit, not that they are right or fast."
    yield "matrix: what multiplies matrices in the PTX; FMA is no tensor core. tmem: columns of tensor memory, of 512."
    yield "load/store B: bytes that one access of a thread to global memory moves, narrowest to widest, without TMA."
    yield "occupancy: blocks that fit on one multiprocessor at once, and the resources that allow no more."
