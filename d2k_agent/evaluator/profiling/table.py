"""Nsight Compute's CSV as launches with numbers in base units.

Reads the raw page (a row a launch, units in the second row) and the details page (a row a value). Its output mixes
messages with the table, separates thousands by commas and, on the details page, scales units row by row.

NVIDIA's package `ncu-report` is not used, also where it is installed: it reads report files only, refuses those of a
newer profiler, and tells no counter that the raw page does not; the evaluator takes the standard library and torch.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

_PREFIXES = {"n": 1e-9, "u": 1e-6, "m": 1e-3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_ANONYMOUS = re.compile(r"\(anonymous namespace\)::|<unnamed>::")
_SECONDS, _BYTES = re.compile(r"([num]?)s(?:econd)?"), re.compile(r"([KMGT]?)byte(/.+)?")


@dataclass
class Launch:
    """One profiled launch. `values` by metric name or label: nanoseconds, bytes, bytes per second, percent, counts.

    A value that was not reported or is no number is None. `ranges` is what the NVTX columns say, None without them.
    """

    name: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    ranges: str | None
    values: dict[str, float | None] = field(default_factory=dict)

    @property
    def function(self) -> str:
        """The name alone: without a type before it and a template's arguments behind it."""
        return kernel_function(self.name)


def read_launches(text: str) -> list[Launch]:
    """The launches in the output of a run, in the order of their ids; empty when there is no table in it."""
    launches: dict[tuple[str, str], Launch] = {}
    header: list[str] = []
    units: dict[str, str] = {}
    for row in csv_rows(text):
        if row[0] == "ID":
            header, units = row, {}
        elif header and row[0] == "":
            units = dict(zip(header, row, strict=False))
        elif header and row[0].isdigit() and "Kernel Name" in header[: len(row)]:
            cells = dict(zip(header, row, strict=False))
            key = (cells.get("Process ID", ""), row[0])
            launch = launches.setdefault(key, _launch(cells))
            for name, value in _values(cells, units):
                launch.values.setdefault(name, value)
    return list(launches.values())


def number(text: str, unit: str = "") -> float | None:
    """A cell as a number in its base unit (seconds become nanoseconds), None where it holds none."""
    try:
        value = float(text.replace(",", ""))
    except ValueError:
        return None
    if not math.isfinite(value):
        return None
    if match := _SECONDS.fullmatch(unit):
        return value * 1e9 * _PREFIXES.get(match[1], 1.0)
    if match := _BYTES.fullmatch(unit):
        return value * _PREFIXES.get(match[1], 1.0)
    return value


def csv_rows(text: str) -> Iterator[list[str]]:
    """The rows of two cells and more among the lines of an output; those that are none are left out."""
    for line in text.splitlines():
        if line.startswith('"'):
            try:
                row = next(csv.reader([line], strict=True))
            except csv.Error:
                continue  # a line of somebody's own that begins like ours
            if len(row) > 1:
                yield row


def _values(cells: dict[str, str], units: dict[str, str]) -> Iterator[tuple[str, float | None]]:
    if "Metric Name" in cells:
        if "Metric Value" in cells:
            yield cells["Metric Name"], number(cells["Metric Value"], cells.get("Metric Unit", ""))
        return
    for name, cell in cells.items():
        if "__" in name:
            yield name, number(cell, units.get(name, ""))


def _launch(cells: dict[str, str]) -> Launch:
    named = [cell for name, cell in cells.items() if "Push/Pop_Range" in name]
    return Launch(
        name=_function(cells["Kernel Name"]),
        grid=_shape(cells.get("Grid Size", "")),
        block=_shape(cells.get("Block Size", "")),
        ranges=named[0] if named else None,
    )


def _function(name: str) -> str:
    """A kernel's name without the types of its parameters. Those of its template may hold brackets of their own, and a
    namespace without a name is written in brackets, too: it is left out.
    """
    name, depth = _ANONYMOUS.sub("", name), 0
    for place, (before, sign) in enumerate(zip(" " + name, name, strict=False)):
        depth += (sign == "<") - (sign == ">" and before != "-")
        if sign == "(" and depth == 0:
            return name[:place].strip() or name
    return name


def kernel_function(name: str) -> str:
    """The name alone: without a type before it, a template's arguments and the types of its parameters behind it."""
    return _function(name).partition("<")[0].split(" ")[-1]


def _shape(text: str) -> tuple[int, ...]:
    return tuple(int(size) for size in re.findall(r"\d+", text))


def in_range(launches: Sequence[Launch], name: str) -> list[Launch]:
    """The launches within a range of that name; all of them where the table does not say."""
    return [launch for launch in launches if launch.ranges is None or f":{name}:" in launch.ranges]
