"""How a number of things is told: everywhere the same, and right for one of them."""

from __future__ import annotations


def counted(number: int, one: str, many: str | None = None) -> str:
    """`number` with separators and what it counts: `one` for exactly one, else `many` (None: `one` with an s)."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"
