"""The time limit on somebody else's code: what comes out of a block in which it rang."""

from __future__ import annotations

import signal
import time
import traceback
from collections.abc import Callable
from contextlib import suppress

import pytest

from d2k_agent.evaluator.alarm import PROCESSOR, REAL, alarm


class _TimeIsUp(BaseException):
    """Of these tests."""


def spin(seconds: float = 5.0) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        pass


def swallow() -> None:
    with suppress(BaseException):
        spin()


def make_another_of_it() -> None:
    try:
        spin()
    except BaseException as problem:
        raise SystemError("error return without exception set") from problem


@pytest.mark.parametrize("clock", [REAL, PROCESSOR])
@pytest.mark.parametrize("code", [spin, swallow, make_another_of_it])
def test_a_block_in_which_it_rang_ends_with_its_fault_alone(code: Callable[[], None], clock: tuple[int, int]) -> None:
    with pytest.raises(_TimeIsUp), alarm(0.05, _TimeIsUp, clock):
        code()


def test_the_fault_knows_where_the_code_was() -> None:
    with pytest.raises(_TimeIsUp) as caught, alarm(0.05, _TimeIsUp):
        make_another_of_it()
    assert "make_another_of_it" in [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]


def test_it_rings_again_where_it_was_swallowed() -> None:
    def swallow_once() -> None:
        swallow()
        spin(30.0)

    began = time.monotonic()
    with pytest.raises(_TimeIsUp), alarm(0.05, _TimeIsUp):
        swallow_once()
    assert time.monotonic() - began < 15.0


def test_before_its_time_results_and_errors_are_those_of_the_code_and_nothing_rings_behind_it() -> None:
    handler = signal.getsignal(signal.SIGALRM)
    with pytest.raises(ZeroDivisionError), alarm(0.05, _TimeIsUp):
        raise ZeroDivisionError
    with alarm(0.05, _TimeIsUp):
        total = sum(range(10))
    spin(0.1)
    assert total == 45 and signal.getsignal(signal.SIGALRM) is handler
