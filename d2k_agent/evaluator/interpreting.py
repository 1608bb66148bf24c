"""Triton's interpreter as the CPU device uses it: invisible to the meters, and not slowed by its own bookkeeping.

What an interpreted kernel computes is not changed here (numerics does that).
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from torch.utils._python_dispatch import _disable_current_modes
from triton import language as tl
from triton.runtime import interpreter


def prepare() -> None:
    """Apply both to the interpreter of this process, once."""
    _suspend_meters()
    _remember_builtins()


def _suspend_meters() -> None:
    """What a kernel does with PyTorch inside is the interpreter's doing, not run()'s: no meter sees it."""
    launch: Callable[..., Any] = interpreter.GridExecutor.__call__

    @functools.wraps(launch)
    def unmetered(*args: Any, **kwargs: Any) -> Any:
        with _disable_current_modes():
            return launch(*args, **kwargs)

    interpreter.GridExecutor.__call__ = unmetered


def _remember_builtins() -> None:
    """Look for triton.language's builtins once a module instead of at every launch and every nested call.

    Measured on Muon's smallest shape: that search was about half of a call.
    """
    names: dict[int, list[str]] = {}

    def patch_builtin(module: Any, builder: Any, *scope: Any) -> None:
        if id(module) not in names:
            names[id(module)] = [name for name, value in inspect.getmembers(module) if tl.core.is_builtin(value)]
        found = names[id(module)]
        if not found or not tl.core.is_builtin(getattr(module, found[0])):
            return  # a kernel further out has replaced them all, and will restore them all
        for name in found:
            interpreter._patch_attr(module, name, getattr(module, name), builder, *scope)  # noqa: SLF001

    interpreter._patch_builtin = patch_builtin  # noqa: SLF001
