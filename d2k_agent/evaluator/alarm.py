"""A time limit inside a process that runs somebody else's code in its main thread."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from typing import Any

REAL, PROCESSOR = (signal.ITIMER_REAL, signal.SIGALRM), (signal.ITIMER_PROF, signal.SIGPROF)
"""Clocks: seconds as they pass, and seconds that this process computes."""


@contextlib.contextmanager
def alarm(limit_s: float, fault: type[BaseException], clock: tuple[int, int] = REAL) -> Iterator[None]:
    """Raises `fault` inside the block after `limit_s` seconds of `clock`, and again each second if it is swallowed.

    A block in which it rang ends with `fault` and nothing else. Code there may catch it, what is called back while the
    interpreter tidies up may swallow it, and in places it becomes a SystemError.
    """
    timer, number = clock
    rang = False

    def ring(_signal: int, _frame: Any) -> None:
        nonlocal rang
        rang = True
        raise fault

    before = signal.signal(number, ring)
    signal.setitimer(timer, max(limit_s, 0.001), 1.0)
    try:
        yield
    except fault:
        raise
    except BaseException as problem:
        if rang:
            raise fault().with_traceback(problem.__traceback__) from problem
        raise
    else:
        if rang:
            raise fault
    finally:
        signal.setitimer(timer, 0)
        signal.signal(number, before)
