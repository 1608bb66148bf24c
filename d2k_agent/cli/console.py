"""Printing for scripts and for people: one JSON value a line, or plain text."""

from __future__ import annotations

import json
import sys
from typing import Any


def print_json(value: Any) -> None:
    """Print `value` as one line of JSON on stdout."""
    print(json.dumps(value, ensure_ascii=False, allow_nan=False))


def print_text(text: str) -> None:
    """Print text of any origin: what the terminal's encoding cannot show is escaped, control characters too."""
    visible = "".join(c if c in "\n\t" or c.isprintable() else repr(c)[1:-1] for c in text)
    encoding = sys.stdout.encoding or "utf-8"
    print(visible.encode(encoding, "backslashreplace").decode(encoding))
