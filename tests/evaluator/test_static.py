"""The bound on the time that the static rules take."""

from __future__ import annotations

import gc
import signal
import time

import pytest

from d2k_agent.evaluator.checks.static import static_violations
from tests.evaluator.scaling import HONEST

LONG = "\n".join([*(f"a{i} = {i}\nif a{i}:\n    b{i} = 1" for i in range(4000)), HONEST])
"""More than a minute's work for the rules."""


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of a test library's callbacks
def test_a_text_that_the_rules_do_not_get_through_is_refused() -> None:
    (violation,) = static_violations(LONG, {}, limit_s=0.5)
    assert violation.check == "static.unreadable"
    assert "make it much shorter" in violation.message


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_alarm_that_a_callback_of_the_collector_swallows_is_heard_all_the_same() -> None:
    called: list[str] = []

    def swallow(phase: str, _info: dict[str, int]) -> None:
        """What rings in here is raised to nobody."""
        if called or not signal.getitimer(signal.ITIMER_PROF)[0]:
            return
        called.append(phase)
        until = time.process_time() + 0.3
        while time.process_time() < until:
            pass

    before = gc.get_threshold()
    gc.callbacks.append(swallow)
    gc.set_threshold(20)
    try:
        (violation,) = static_violations(HONEST, {}, limit_s=0.2)
    finally:
        gc.set_threshold(*before)
        gc.callbacks.remove(swallow)
    assert called and "make it much shorter" in violation.message


def test_what_the_rules_say_and_raise_is_said_within_the_bound() -> None:
    assert static_violations(HONEST, {}) == ()
    with pytest.raises(SyntaxError):
        static_violations("def run(:", {})
