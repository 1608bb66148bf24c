"""The one thing that every solution.py must define, and what is said of one that does not."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

NO_RUN = "solution.py must define run(...)"


class NoRun(AttributeError):
    """A module without a function run; its text is NO_RUN."""


def run_of(module: types.ModuleType) -> Callable[..., Any]:
    """The function that a candidate is. Raises NoRun."""
    run = getattr(module, "run", None)
    if not callable(run):
        raise NoRun(NO_RUN)
    return run  # type: ignore[no-any-return]
