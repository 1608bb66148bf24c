"""The frame of a tool program in Python: arguments in, text out, exit status 1 for what the caller did wrong."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def answer(action: Callable[[dict[str, Any]], str]) -> None:
    """Read the arguments (JSON) from standard input and print the text that `action` makes of them.

    A ValueError of `action` is an answer too: its text is printed, and the program exits with 1.
    """
    arguments = json.load(sys.stdin)
    try:
        text, status = action(arguments), 0
    except ValueError as problem:
        text, status = str(problem), 1
    sys.stdout.buffer.write(text.encode("utf-8", "backslashreplace"))
    sys.stdout.buffer.flush()
    sys.exit(status)
