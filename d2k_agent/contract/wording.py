"""How a number of things is told, and how words of others are told from ours: everywhere the same."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

INDENT = "  "
"""What a further line of a text begins with at least that a candidate may have written: a line of ours that could be
taken for something else begins without."""


def counted(number: int, one: str, many: str | None = None) -> str:
    """`number` with separators and what it counts: `one` for exactly one, else `many` (None: `one` with an s)."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def either(choices: Iterable[object]) -> str:
    """Choices as somebody would say them: 2, 4 or 8."""
    *others, last = map(str, choices)
    return f"{', '.join(others)} or {last}" if others else last


def apart(data: Any) -> Any:
    """JSON data in which the further lines of every text, names of fields included, are indented, together, by INDENT.

    Whatever breaks lines somewhere breaks them here. Texts that are so already stay, so that it may be done again.
    """
    if isinstance(data, str):
        return _apart(data)
    if isinstance(data, list):
        return [apart(item) for item in data]
    if isinstance(data, dict):
        return {_apart(name): apart(item) for name, item in data.items()}
    return data


def _apart(text: str) -> str:
    first, *more = text.splitlines() or [""]
    indented = all(line.startswith(INDENT) for line in more if line)
    return "\n".join([first, *(line if indented or not line else INDENT + line for line in more)])
