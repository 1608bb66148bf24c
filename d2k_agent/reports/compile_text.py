"""What the compiler said, in words for the author of the kernel."""

from __future__ import annotations

from d2k_agent.contract import CompileReport, KernelReport
from d2k_agent.reports.tables import UNKNOWN, count, table

MOST_WARNINGS = 5
RIGHT = ("warps", "stages", "regs", "spill B", "shared B", "tmem", "launches")


def compile_text(report: CompileReport) -> str:
    """One line of outcome, then a row a kernel variant. Holds no times and no paths, so that it replays."""
    lines = [_outcome(report)]
    if report.kernels:
        header = ("kernel", "warps", "stages", "regs", "spill B", "shared B", "tmem", "launches", "instructions")
        lines += ["", table(header, [_row(kernel) for kernel in report.kernels], RIGHT)]
    if report.not_compiled:
        lines.append(f"{report.not_compiled} autotuner configuration(s) were left out of this report.")
    lines += [f"warning: {warning}" for warning in report.warnings[:MOST_WARNINGS]]
    if len(report.warnings) > MOST_WARNINGS:
        lines.append(f"{len(report.warnings) - MOST_WARNINGS} more warning(s) were left out.")
    return "\n".join(lines)


def _outcome(report: CompileReport) -> str:
    where = f"{report.target} ({report.architecture}, Triton {report.triton_version})"
    if report.error is not None:
        return f"Does not compile for {where}: {report.error}"
    shapes = f" at {', '.join(report.workloads)}" if report.workloads else ""
    return f"Compiles for {where}: {len(report.kernels)} kernel variant(s) launched by run(){shapes}."


def _row(kernel: KernelReport) -> tuple[str, ...]:
    name = kernel.name if kernel.source_line is None else f"{kernel.name}:{kernel.source_line}"
    instructions = ", ".join(f"{amount} {kind}" for kind, amount in sorted(kernel.instructions.items()) if amount)
    return (
        name,
        str(kernel.num_warps),
        str(kernel.num_stages),
        count(kernel.registers),
        _spills(kernel),
        count(kernel.shared_bytes),
        "-" if kernel.tensor_memory_columns is None else str(kernel.tensor_memory_columns),
        str(kernel.launches),
        instructions or "-",
    )


def _spills(kernel: KernelReport) -> str:
    if kernel.spill_store_bytes is None or kernel.spill_load_bytes is None:
        return UNKNOWN
    return count(kernel.spill_store_bytes + kernel.spill_load_bytes)
