"""A submission's kernels as narrow as a page: what the compiler says of each, which launches were seen, and libraries.

compile_text has instructions and compile-time arguments as well, for a model.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from d2k_agent.contract import CompileReport, KernelReport, Verdict
from d2k_agent.contract.wording import counted
from d2k_agent.reports.compile_text import MOST_WARNINGS
from d2k_agent.reports.explained_steps import cut_short, deciding_step
from d2k_agent.reports.tables import UNKNOWN, count, table

WIDTH = 112
"""Characters of a line of prose, before it is indented."""
HEADER = (
    "kernel:line",
    "at",
    "launches",
    "variants",
    "warps",
    "registers",
    "spill stores B",
    "spill loads B",
    "shared B",
)
Needs = tuple[str, int, int | None, int | None, int | None, int]
"""Of a compiled variant: where it stands, warps, registers, bytes of spill stores and loads, shared bytes."""


def kernels_text(verdict: Verdict) -> str:
    """A row for all variants of a kernel that take the same, with the numbers of its workloads; below it the kernels
    that no launch reached, then what ran on a GPU."""
    report = verdict.compile_report
    if report is None:
        before = deciding_step(verdict) in (None, "static") and cut_short(verdict)
        lines = [f"nothing was compiled: {before or 'it was not asked for'}"]
    else:
        lines = list(_lines(report, told=report.error == verdict.message))
    return "\n".join([*lines, *_ran(verdict)])


def _ran(verdict: Verdict) -> Iterator[str]:
    """Of each measured workload, what one call launched, as the driver or the profiler had it."""
    for result in verdict.workloads:
        if result.measurement is not None:
            kernels = (result.kernels or {}).items()
            told = ", ".join(f"{name} x{launches}" for name, launches in kernels) or "not read"
            yield textwrap.fill(f"one call on {result.label} launched: {told}", WIDTH)
    if verdict.libraries:
        yield textwrap.fill(f"loaded beside what was there: {', '.join(verdict.libraries)}", WIDTH)


def _lines(report: CompileReport, told: bool) -> Iterator[str]:
    where = f"{report.target} ({report.architecture}, Triton {report.triton_version})"
    labels = list(dict.fromkeys([*report.workloads, *(label for kernel in report.kernels for label in kernel.grids)]))
    if report.error is not None:
        yield f"not all compiled for {where}: {'as said above' if told else report.error}"
    elif report.workloads:
        yield textwrap.fill(f"compiled for {where} at {', '.join(report.workloads)}", WIDTH)
    if labels[1:]:
        yield textwrap.fill(f"at: {', '.join(f'{number} {label}' for number, label in enumerate(labels, 1))}", WIDTH)
    launches: dict[Needs, list[KernelReport]] = {}
    for kernel in report.kernels:
        if kernel.launches:
            launches.setdefault(_needs(kernel), []).append(kernel)
    if launches:
        yield table(HEADER, [_row(needs, alike, labels) for needs, alike in launches.items()], HEADER[1:])
    yield from _unreached(report)
    if report.not_compiled:
        yield f"{counted(report.not_compiled, 'autotuner configuration')} left out"
    yield from [f"warning: {warning}" for warning in report.warnings[:MOST_WARNINGS]]


def _needs(kernel: KernelReport) -> Needs:
    where = kernel.name if kernel.source_line is None else f"{kernel.name}:{kernel.source_line}"
    spills = kernel.spill_store_bytes, kernel.spill_load_bytes
    return where, kernel.num_warps, kernel.registers, *spills, kernel.shared_bytes


def _row(needs: Needs, alike: list[KernelReport], labels: list[str]) -> tuple[str, ...]:
    where, warps, *rest = needs
    launches = sum(kernel.launches for kernel in alike)
    seen = {label for kernel in alike for label in kernel.grids}
    at = ",".join(str(number) for number, label in enumerate(labels, 1) if label in seen)
    return where, at or UNKNOWN, count(launches), str(len(alike)), str(warps), *[count(value) for value in rest]


def _unreached(report: CompileReport) -> Iterator[str]:
    reached = {kernel.name for kernel in report.kernels if kernel.launches}
    for name in dict.fromkeys(kernel.name for kernel in report.kernels):
        idle = sum(not kernel.launches for kernel in report.kernels if kernel.name == name)
        if name not in reached:
            yield f"{name}: compiled, and no launch reached it"
        elif idle:
            yield f"{name}: {counted(idle, 'more variant')} compiled that no launch chose"
