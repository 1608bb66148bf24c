"""Printing for scripts and for people: one JSON value a line, or plain text."""

from __future__ import annotations

import json
import sys
from typing import Any, TextIO

from d2k_agent.reports.printable import printable


def print_json(value: Any) -> None:
    """Print `value` as one line of JSON on stdout, in ASCII: any terminal and any script takes it."""
    print(json.dumps(value, allow_nan=False))


def print_text(text: str, stream: TextIO | None = None) -> None:
    """Print text of any origin on `stream` (None: stdout), whatever its encoding."""
    stream = stream or sys.stdout
    print(visible(text, stream), file=stream)


def visible(text: str, stream: TextIO) -> str:
    """`text` as the terminal may show it: control characters and what its encoding lacks are escaped."""
    encoding = stream.encoding or "utf-8"
    return printable(text).encode(encoding, "backslashreplace").decode(encoding)
