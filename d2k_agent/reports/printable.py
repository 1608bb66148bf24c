"""Text of any origin made harmless to look at: what cannot be seen is told by its number."""

from __future__ import annotations

import re

_SUSPECT = re.compile(r"[^\n\t\x20-\x7e]")


def printable(text: str) -> str:
    """`text` with every control, direction and other invisible character escaped, line breaks and tabs excepted."""
    return _SUSPECT.sub(lambda found: found[0] if found[0].isprintable() else _escaped(found[0]), text)


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")
