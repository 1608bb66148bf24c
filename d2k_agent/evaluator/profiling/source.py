"""Nsight Compute's source page as the hot lines of solution.py.

The page (`--page source --print-source cuda,sass --csv`) has a table for each file that a kernel has instructions of: a
row "File Path", a row "Function Name", a header that begins with "Line No", then rows of two kinds. A row with a line
number is a source line with the sum over its instructions; one without is an instruction with its address. An
instruction of an inlined function stands below its own line and below the one that calls it, so shares are of the
samples by address.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from d2k_agent.contract.profile import HotLine
from d2k_agent.evaluator.profiling import metrics
from d2k_agent.evaluator.profiling.table import csv_rows, kernel_function, number

MOST_LINES = 5
MOST_TEXT_CHARS = 100
_SAMPLES = ("# Samples", "Warp Stall Sampling (All Samples)", "smsp__pcsamp_sample_count")
_STALL = ("stall_", "smsp__pcsamp_warps_issue_stalled_")
_SHORT = {
    "branch_resolve": "branch_resolving",
    "dispatch": "dispatch_stall",
    "imc": "imc_miss",
    "lg": "lg_throttle",
    "long_sb": "long_scoreboard",
    "math": "math_pipe_throttle",
    "mio": "mio_throttle",
    "no_inst": "no_instruction",
    "no_instructions": "no_instruction",
    "short_sb": "short_scoreboard",
    "sleep": "sleeping",
    "tex": "tex_throttle",
    "warpgroup_arrive": "gmma",
}
"""How the page shortens the names of stalls."""


@dataclass
class _Kernel:
    """The samples of one kernel: by address, by line of the solution, and there by stall."""

    by_address: dict[tuple[int, str], float] = field(default_factory=dict)
    by_line: Counter[int] = field(default_factory=Counter)
    stalls: dict[int, Counter[str]] = field(default_factory=dict)
    texts: dict[int, str] = field(default_factory=dict)


def read_hot_lines(text: str, file: str = "solution.py") -> dict[str, tuple[HotLine, ...]]:
    """The lines of the file that most samples fell on, by the name of the kernel; empty where the page tells none.

    Of a kernel that was looked into several times, the samples are added up. A kernel without a line of the file is
    left out.
    """
    kernels: dict[str, _Kernel] = {}
    for table in _tables(text):
        kernel = kernels.setdefault(kernel_function(table.function), _Kernel())
        for row in table.rows:
            _take(kernel, table, row, ours=os.path.basename(table.path) == file)
    found = {name: tuple(_hottest(kernel)) for name, kernel in kernels.items()}
    return {name: lines for name, lines in found.items() if lines}


@dataclass
class _Table:
    """A file's part of a kernel. `launch` tells the launches of one kernel apart."""

    path: str
    function: str
    header: list[str]
    launch: int
    rows: list[list[str]] = field(default_factory=list)

    def column(self, *names: str) -> int | None:
        """The place of the first of these columns that is there."""
        return next((self.header.index(name) for name in names if name in self.header), None)


def _tables(text: str) -> Iterator[_Table]:
    path, function, table = "", "", None
    seen: Counter[tuple[str, str]] = Counter()
    for row in csv_rows(text):
        if row[0] in ("File Path", "Function Name"):
            if table is not None:
                yield table
                table = None
            path, function = (row[1], function) if row[0] == "File Path" else (path, row[1])
        elif row[0] == "Line No":
            seen[path, function] += 1
            table = _Table(path, function, row, seen[path, function])
        elif table is not None:
            table.rows.append(row)
    if table is not None:
        yield table


def _take(kernel: _Kernel, table: _Table, row: list[str], *, ours: bool) -> None:
    samples, address = _number(row, table.column(*_SAMPLES)), table.column("Address")
    if not samples:
        return
    if not row[0].isdigit():
        if address is not None and address < len(row):
            kernel.by_address[table.launch, row[address]] = samples
    elif ours:
        line = int(row[0])
        kernel.by_line[line] += int(samples)
        kernel.texts[line] = " ".join(row[1].split())[:MOST_TEXT_CHARS]
        stalls = kernel.stalls.setdefault(line, Counter())
        for place, name in enumerate(table.header):
            reason = _reason(name)
            if reason is not None:
                stalls[reason] += int(_number(row, place) or 0)


def _number(row: list[str], place: int | None) -> float | None:
    return number(row[place]) if place is not None and place < len(row) else None


def _reason(column: str) -> str | None:
    """The stall that a column counts, in words; None for other columns and for warps that were issued."""
    short = next((column.removeprefix(prefix) for prefix in _STALL if column.startswith(prefix)), None)
    if short is None or short == metrics.ISSUED or short.endswith(("_not_issued", "(Not-issued Samples)")):
        return None
    return metrics.STALLS.get(_SHORT.get(short, short), short)


def _hottest(kernel: _Kernel) -> Iterator[HotLine]:
    total = sum(kernel.by_address.values()) or float(kernel.by_line.total())
    for line, samples in kernel.by_line.most_common(MOST_LINES):
        ((stall, count),) = kernel.stalls[line].most_common(1) or (("", 0),)
        yield HotLine(line, min(samples / total, 1.0), stall if count else None, kernel.texts[line])
