"""Ranges that a profiler shows on the controller's time line: one a turn. Without a profiler they cost nothing.

`nsys profile --trace=nvtx d2k-agent solve ...` shows them in the domain `d2k_agent`, named `turn N`. What the evaluator
does has ranges of its own (d2k_agent/evaluator/ranges.py), in its own process.
"""

from __future__ import annotations

import nvtx

DOMAIN = "d2k_agent"


class TurnRanges:
    """The range of the turn at work. A turn begins with its request and ends when the next one, or the end, begins."""

    def __init__(self) -> None:
        self._domain = nvtx.get_domain(DOMAIN)
        self._open: object | None = None

    def entering(self, node: str, turn: int) -> None:
        """Take note that the loop enters `node` with `turn` turns closed."""
        if node in ("call_model", "select") and self._open is not None:
            self._domain.end_range(self._open)
            self._open = None
        if node == "call_model":
            self._open = self._domain.start_range(self._domain.get_event_attributes(message=range_name(turn + 1)))


def range_name(turn: int) -> str:
    """What the range of a turn is called."""
    return f"turn {turn}"
