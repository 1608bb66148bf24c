"""A time limit inside a process that runs somebody else's code in its main thread."""

from __future__ import annotations

import signal
from types import FrameType
from typing import Any

REAL, PROCESSOR = (signal.ITIMER_REAL, signal.SIGALRM), (signal.ITIMER_PROF, signal.SIGPROF)
"""Clocks: seconds as they pass, and seconds that this process computes."""


class Alarm:
    """Raises `fault` inside its block after `limit_s` seconds of `clock`, and again each second if it is swallowed.

    A block in which it rang ends with `fault` and nothing else: code there may catch it, what is called back while the
    interpreter tidies up may swallow it, and in places it becomes a SystemError. Nothing rings behind the block.
    """

    def __init__(self, limit_s: float, fault: type[BaseException], clock: tuple[int, int] = REAL) -> None:
        self._limit_s, self._fault = limit_s, fault
        self._timer, self._number = clock
        self._first: BaseException | None = None
        self._before: Any = None

    def __enter__(self) -> None:
        self._before = signal.signal(self._number, self._ring)
        signal.setitimer(self._timer, max(self._limit_s, 0.001), 1.0)

    def __exit__(self, _kind: object, problem: BaseException | None, _traceback: object) -> None:
        signal.setitimer(self._timer, 0)
        signal.signal(self._number, self._before)
        self.insist(problem)

    def insist(self, problem: BaseException | None) -> None:
        """Raise the fault, from where it rang first, if `problem` or nothing is what became of that."""
        if self._first is not None and not isinstance(problem, self._fault):
            raise self._fault().with_traceback(self._first.__traceback__) from problem

    def _ring(self, _signal: int, frame: FrameType | None) -> None:
        fault = self._fault()
        self._first = self._first or fault
        while frame is not None:
            if frame.f_code in _OF_ITS_OWN:  # raised there, it would leave the timer running
                return
            frame = frame.f_back
        raise fault


_OF_ITS_OWN = (Alarm.__enter__.__code__, Alarm.__exit__.__code__)
