"""A time limit inside a process that runs somebody else's code in its main thread."""

from __future__ import annotations

import signal
from types import FrameType, TracebackType
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
        self._rang = False
        self._before: Any = None

    def __enter__(self) -> None:
        self._before = signal.signal(self._number, self._ring)
        signal.setitimer(self._timer, max(self._limit_s, 0.001), 1.0)

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, at: TracebackType | None
    ) -> None:
        signal.setitimer(self._timer, 0)
        signal.signal(self._number, self._before)
        self.insist(problem)

    def insist(self, problem: BaseException | None) -> None:
        """Raise the fault where it rang, and `problem` or nothing is what became of that."""
        if self._rang and not isinstance(problem, self._fault):
            at = None if problem is None else problem.__traceback__
            raise self._fault().with_traceback(at) from problem

    def _ring(self, _signal: int, frame: FrameType | None) -> None:
        self._rang = True
        while frame is not None:
            if frame.f_code in _OF_ITS_OWN:  # raised there, it would leave the timer running
                return
            frame = frame.f_back
        raise self._fault


_OF_ITS_OWN = (Alarm.__enter__.__code__, Alarm.__exit__.__code__)
