"""Plain text tables: columns as wide as their widest cell, numbers to the right."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

UNKNOWN = "unknown"
NOT_READ = "-"
"""Stands for a clock that nobody was to read: unknown is what somebody should know."""


def table(header: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[str] = ()) -> str:
    """Return `rows` under `header`, two spaces apart; columns named in `right` are aligned to the right."""
    lines = [list(header), *[list(row) for row in rows]]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if name in right else cell.ljust(width)
            for name, cell, width in zip(header, line, widths, strict=True)
        ).rstrip()
        for line in lines
    )


def number(value: float | None, digits: int = 3) -> str:
    """`value` with `digits` significant digits, or the word for a value that nobody knows."""
    return UNKNOWN if value is None else f"{value:.{digits}g}"


def milliseconds(value: float | None) -> str:
    """A latency in milliseconds with four significant digits and its unit."""
    return UNKNOWN if value is None else f"{value:.4g} ms"


def readable_time(value_ms: float | None) -> str:
    """A time given in milliseconds, in the unit that needs no leading zeros, with four significant digits."""
    if value_ms is None:
        return UNKNOWN
    for unit, size_ms in (("ms", 1.0), ("us", 1e-3)):
        if value_ms >= size_ms:
            return f"{value_ms / size_ms:.4g} {unit}"
    return f"{value_ms / 1e-6:.4g} ns"


def count(value: int | None) -> str:
    """A whole number with separators, or the word for a count that nobody knows."""
    return UNKNOWN if value is None else f"{value:,}"


def dollars(value: Decimal | None) -> str:
    """An amount in US$ with four decimals, or the word for one that nobody knows."""
    return UNKNOWN if value is None else f"{value:,.4f}"


def at_least(text: str, lower: bool) -> str:
    """A known sum, told as a lower bound where it is one."""
    return f"at least {text}" if lower and text != UNKNOWN else text


def size(value: int | None) -> str:
    """Bytes in the largest binary unit that keeps the number at one or more."""
    if value is None:
        return UNKNOWN
    amount = float(value)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024 or unit == "GiB":
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    raise AssertionError("unreachable: GiB ends the loop")


def seconds(value: float | None) -> str:
    """A duration, in seconds below a minute, else in minutes and seconds."""
    if value is None:
        return UNKNOWN
    if value < 60:
        return f"{value:.1f} s"
    minutes, rest = divmod(round(value), 60)
    return f"{minutes} min {rest:02d} s"
