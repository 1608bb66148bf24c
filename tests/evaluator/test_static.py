"""The bound on the time that the static rules take."""

from __future__ import annotations

import pytest

from d2k_agent.evaluator.checks.static import static_violations
from tests.evaluator.scaling import HONEST

LONG = "\n".join([*(f"a{i} = {i}\nif a{i}:\n    b{i} = 1" for i in range(4000)), HONEST])
"""More than a minute's work for the rules."""


def test_a_text_that_the_rules_do_not_get_through_is_refused() -> None:
    (violation,) = static_violations(LONG, {}, limit_s=0.5)
    assert violation.check == "static.unreadable"
    assert "make it much shorter" in violation.message


def test_what_the_rules_say_and_raise_is_said_within_the_bound() -> None:
    assert static_violations(HONEST, {}) == ()
    with pytest.raises(SyntaxError):
        static_violations("def run(:", {})
