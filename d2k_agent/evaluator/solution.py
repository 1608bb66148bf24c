"""The one thing that every solution.py must define, what is said of one that does not, and where a crash is told."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

NO_RUN = "solution.py must define run(...)"
CRASH_FILE = "crash"
"""In a candidate's folder: where it was when a signal ended it, as Python's faulthandler writes it."""


class NoRun(AttributeError):
    """A module without a function run; its text is NO_RUN."""


def run_of(module: types.ModuleType) -> Callable[..., Any]:
    """The function that a candidate is. Raises NoRun."""
    run = getattr(module, "run", None)
    if not callable(run):
        raise NoRun(NO_RUN)
    return run  # type: ignore[no-any-return]
