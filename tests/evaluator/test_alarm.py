"""The time limit on somebody else's code: what comes out of a block in which it rang."""

from __future__ import annotations

import signal
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from types import FrameType

import pytest

from d2k_agent.evaluator.alarm import PROCESSOR, REAL, Alarm


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
    with pytest.raises(_TimeIsUp), Alarm(0.05, _TimeIsUp, clock):
        code()


def test_the_fault_knows_where_the_code_was() -> None:
    with pytest.raises(_TimeIsUp) as caught, Alarm(0.05, _TimeIsUp):
        make_another_of_it()
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert [frame.name for frame in frames if frame.name in ("spin", "make_another_of_it")][-1] == "spin"


def test_it_rings_again_where_it_was_swallowed() -> None:
    def swallow_once() -> None:
        swallow()
        spin(30.0)

    began = time.monotonic()
    with pytest.raises(_TimeIsUp), Alarm(0.05, _TimeIsUp):
        swallow_once()
    assert time.monotonic() - began < 15.0


def test_before_its_time_results_and_errors_are_those_of_the_code_and_nothing_rings_behind_it() -> None:
    handler = signal.getsignal(signal.SIGALRM)
    with pytest.raises(ZeroDivisionError), Alarm(0.05, _TimeIsUp):
        raise ZeroDivisionError
    with Alarm(0.05, _TimeIsUp):
        total = sum(range(10))
    spin(0.1)
    assert total == 45 and signal.getsignal(signal.SIGALRM) is handler


@pytest.mark.parametrize(("where", "event"), [("__enter__", "return"), ("__exit__", "call")])
def test_a_ring_while_it_is_set_or_put_away_leaves_nothing_behind_and_is_heard(where: str, event: str) -> None:
    def ring(frame: FrameType, happened: str, _: object) -> None:
        if happened == event and frame.f_code is getattr(Alarm, where).__code__:
            sys.setprofile(None)
            rung.append(where)
            signal.raise_signal(signal.SIGALRM)

    handler, rung = signal.getsignal(signal.SIGALRM), list[str]()
    sys.setprofile(ring)
    try:
        with pytest.raises(_TimeIsUp), Alarm(60.0, _TimeIsUp):
            pass
    finally:
        sys.setprofile(None)
    assert rung == [where]
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0.0 and signal.getsignal(signal.SIGALRM) is handler


def test_a_block_that_ends_when_it_rings_leaves_nothing_behind() -> None:
    handler = signal.getsignal(signal.SIGALRM)
    for number in range(400):
        with suppress(_TimeIsUp), Alarm(0.002, _TimeIsUp):
            spin(0.002 + (number % 40 - 20) * 5e-6)
        assert signal.getitimer(signal.ITIMER_REAL)[0] == 0.0 and signal.getsignal(signal.SIGALRM) is handler
