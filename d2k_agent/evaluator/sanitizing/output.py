"""What compute-sanitizer prints, as the first error of each kind and the tool's own totals.

A line of the tool's begins with nine equals signs. An error is a headline one blank behind them, then lines that are
set in further: where it happened, in which thread, to which address. Addresses and host frames are left out: the ones
differ from run to run, the others are ours.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from d2k_agent.contract.sanitize import SanitizerError

MOST_KINDS = 6
MOST_DETAILS = 4
MOST_CHARS = 200
_MARK = "========="
_PLACE = re.compile(r"\bat (?P<kernel>\S[^+]*?)\+0x[0-9a-f]+(?: in (?P<file>[^\s:]+):(?P<line>\d+))?")
_FRAME = re.compile(r" in (?P<file>[^\s:]+):(?P<line>\d+)")
_ERRORS = re.compile(r"ERROR SUMMARY: (\d+) errors?\s*$")
_HAZARDS = re.compile(r"RACECHECK SUMMARY: \d+ hazards? displayed \((\d+) errors?, (\d+) warnings?\)")
_ADDRESS = re.compile(r" (?:to |at )?0x[0-9a-f]+\b")


@dataclass(frozen=True)
class Totals:
    """How much the tool says that it found."""

    errors: int
    warnings: int


@dataclass
class _Record:
    headline: str
    lines: list[str] = field(default_factory=list)


def read_errors(text: str, file: str = "solution.py") -> tuple[SanitizerError, ...]:
    """The first error of every kind, place and kernel, in the order in which they were printed; MOST_KINDS at most.

    `line` is set where the tool names one of `file`, or one of a frame that leads there.
    """
    found: dict[tuple[str, str | None, int | None], tuple[int, SanitizerError]] = {}
    for record in _records(text):
        error = _error(record, file)
        if error is not None:
            key = error.kind, error.kernel, error.line
            count, first = found.get(key, (0, error))
            found[key] = count + 1, first
    kept = list(found.values())[:MOST_KINDS]
    return tuple(SanitizerError(e.kind, e.kernel, e.line, e.details, count) for count, e in kept)


def read_totals(text: str) -> Totals | None:
    """The tool's own count; None where it did not come to its end."""
    for line in text.splitlines():
        if line.startswith(_MARK):
            if match := _HAZARDS.search(line):
                return Totals(int(match[1]), int(match[2]))
            if match := _ERRORS.search(line):
                return Totals(int(match[1]), 0)
    return None


def _records(text: str) -> Iterator[_Record]:
    record: _Record | None = None
    for line in text.splitlines():
        if not line.startswith(_MARK):
            continue
        rest = line.removeprefix(_MARK)
        if record is not None and rest.startswith("   "):
            record.lines.append(rest.strip())
            continue
        if record is not None:
            yield record
        record = _Record(rest.strip()) if rest.strip() else None
    if record is not None:
        yield record


def _error(record: _Record, file: str) -> SanitizerError | None:
    """The error of a record; None for what names no kernel: headings, totals, errors of the host's calls."""
    lines = [line for line in record.lines if not line.startswith(("Host Frame", "Saved host backtrace"))]
    places = [match for line in (record.headline, *lines) if (match := _PLACE.search(line))]
    if not places:
        return None
    frames = [match for line in (record.headline, *lines) if (match := _FRAME.search(line))]
    ours = [int(match["line"]) for match in frames if os.path.basename(match["file"]) == file]
    own_line = lines[0] if lines and _PLACE.match(lines[0]) else None
    details = [_plain(line) for line in lines if line is not own_line and not line.startswith("Device Frame")]
    return SanitizerError(
        kind=_plain(_PLACE.sub("", record.headline.removeprefix("Error: ").removeprefix("Warning: "))),
        kernel=places[0]["kernel"][:MOST_CHARS],
        line=ours[0] if ours else None,
        details=tuple(details[:MOST_DETAILS]),
    )


def _plain(line: str) -> str:
    """A line without addresses of instructions and of memory."""
    placed = _PLACE.sub(lambda match: f"in {match['file']}:{match['line']}" if match["file"] else "", line)
    return _ADDRESS.sub("", placed).strip()[:MOST_CHARS]
