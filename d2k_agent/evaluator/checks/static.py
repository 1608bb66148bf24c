"""The static rules, within a bound of time: they read a text of anybody's in the process that judges."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from d2k_agent.contract import Violation
from d2k_agent.evaluator.alarm import PROCESSOR, Alarm
from d2k_agent.evaluator.rules import check_rules

MOST_STATIC_S = 30.0
"""Of computing. A thousand lines take about a second, and more lines more than in proportion."""


class _TooLong(BaseException):
    """Time is up. No Exception: one in the rules counts as a text that cannot be read."""


def static_violations(source: str, rules: Mapping[str, Any], limit_s: float = MOST_STATIC_S) -> tuple[Violation, ...]:
    """check_rules(), and `static.unreadable` for a text that takes longer than `limit_s`. Raises as that does."""
    try:
        with Alarm(limit_s, _TooLong, PROCESSOR):
            return check_rules(source, rules)
    except _TooLong:
        told = f"the rules did not get through solution.py in {limit_s:g} s of computing: make it much shorter"
        return (Violation("static.unreadable", told, 1),)
