"""What the compiler said, in words for the author of the kernel."""

from __future__ import annotations

from collections.abc import Sequence

from d2k_agent.contract import CompileReport, KernelReport
from d2k_agent.reports.tables import UNKNOWN, count, table

MOST_WARNINGS = 8
MOST_CHARS = 6000
HEADER = ("kernel", "warps", "stages", "regs", "spill B", "shared B", "tmem", "launches", "instructions", "constexprs")
RIGHT = HEADER[1:8]
TENSOR_CORE = ("wgmma", "tcgen05.mma", "mma.sync")
UNTOLD = frozenset(("bar.sync",))
"""Counted, but of no use to an author."""


def compile_text(report: CompileReport, max_chars: int = MOST_CHARS) -> str:
    """Outcome, warnings, then a row a launched kernel variant, matrix products first; at most `max_chars` long.

    Holds no times and no paths, so that it replays. Rows that do not fit are left out, and how many is said.
    """
    head = [_cut(_outcome(report), max_chars // 2), *_warnings(report)]
    launched = sorted((kernel for kernel in report.kernels if kernel.launches), key=importance)
    tail = not_launched([kernel for kernel in report.kernels if not kernel.launches])
    if report.not_compiled:
        tail.append(f"{report.not_compiled} autotuner configuration(s) were left out of this report.")
    for shown in range(len(launched), -1, -1):
        left = len(launched) - shown
        more = [f"{left} more launched kernel variant(s) left out."] if left else []
        text = "\n".join([*head, *_rows(launched[:shown]), *more, *tail])
        if len(text) <= max_chars:
            return text
    return _cut(text, max_chars)


def failure_words(report: CompileReport) -> str:
    """What the report's error is an error of."""
    words = {
        "launch": "does not launch",
        "run": "its Python code fails before its kernels are compiled",
        "time": "not compiled in time",
    }
    return words.get(report.error_kind or "", "does not compile")


def _outcome(report: CompileReport) -> str:
    where = f"{report.target} ({report.architecture}, Triton {report.triton_version})"
    if report.error is not None:
        failure = failure_words(report)
        return f"{failure[0].upper()}{failure[1:]} for {where}: {report.error}"
    shapes = f" at {', '.join(report.workloads)}" if report.workloads else ""
    launched = sum(1 for kernel in report.kernels if kernel.launches)
    return (
        f"Compiles for {where}: {launched} kernel variant(s) launched by run(){shapes}. This says that "
        f"they compile and fit, not that they are right or fast."
    )


def _warnings(report: CompileReport) -> list[str]:
    lines = [f"warning: {warning}" for warning in report.warnings[:MOST_WARNINGS]]
    if len(report.warnings) > MOST_WARNINGS:
        lines.append(f"{len(report.warnings) - MOST_WARNINGS} more warning(s) were left out.")
    return lines


def importance(kernel: KernelReport) -> tuple[bool, int]:
    """A key that sorts matrix products first, then what is launched most."""
    multiplies = any(kernel.instructions.get(kind) for kind in TENSOR_CORE)
    return not multiplies, -kernel.launches


def _rows(kernels: Sequence[KernelReport]) -> list[str]:
    return ["", table(HEADER, [_row(kernel) for kernel in kernels], RIGHT)] if kernels else []


def _row(kernel: KernelReport) -> tuple[str, ...]:
    name = kernel.name if kernel.source_line is None else f"{kernel.name}:{kernel.source_line}"
    told = {kind: amount for kind, amount in sorted(kernel.instructions.items()) if amount and kind not in UNTOLD}
    return (
        name,
        str(kernel.num_warps),
        str(kernel.num_stages),
        count(kernel.registers),
        count(spilled(kernel)),
        count(kernel.shared_bytes),
        "-" if kernel.tensor_memory_columns is None else str(kernel.tensor_memory_columns),
        str(kernel.launches),
        ", ".join(f"{amount} {kind}" for kind, amount in told.items()) or "-",
        _cut(" ".join(f"{name}={value}" for name, value in kernel.constexprs.items()), 120) or "-",
    )


def spilled(kernel: KernelReport) -> int | None:
    """Bytes stored and loaded for want of registers, None where nobody read them."""
    if kernel.spill_store_bytes is None or kernel.spill_load_bytes is None:
        return None
    return kernel.spill_store_bytes + kernel.spill_load_bytes


def not_launched(kernels: Sequence[KernelReport]) -> list[str]:
    """A line a kernel whose other variants an autotuner compiled: ranges instead of rows."""
    lines = []
    for name in dict.fromkeys(kernel.name for kernel in kernels):
        variants = [kernel for kernel in kernels if kernel.name == name]
        registers = [kernel.registers for kernel in variants if kernel.registers is not None]
        shared = [kernel.shared_bytes for kernel in variants]
        spilling = sum(1 for kernel in variants if spilled(kernel))
        lines.append(
            f"{name}: {len(variants)} more variant(s) compiled and not launched by the first call, "
            f"registers {_range(registers)}, shared bytes {_range(shared)}, {spilling} of them spill."
        )
    return lines


def _range(values: Sequence[int]) -> str:
    if not values:
        return UNKNOWN
    return count(values[0]) if min(values) == max(values) else f"{count(min(values))} to {count(max(values))}"


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: max(0, most - 6)] + " (cut)"
