"""Triton's interpreter as the CPU device uses it: invisible to the meters, and not slowed by its own bookkeeping.

What an interpreted kernel computes is not changed here (numerics does that).
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable
from typing import Any

from torch.utils._python_dispatch import _disable_current_modes, _get_current_dispatch_mode_stack
from triton import language as tl
from triton.runtime import interpreter


def prepare() -> None:
    """Apply both to the interpreter of this process, once."""
    _suspend_meters()
    _remember_builtins()


def _suspend_meters() -> None:
    """What a kernel does with PyTorch inside is the interpreter's doing, not run()'s: no meter sees it.

    A launch also calls functions of run()'s side, the grid and the hooks before a run: these stay metered.
    """
    launch: Callable[..., Any] = interpreter.GridExecutor.__call__

    @functools.wraps(launch)
    def unmetered(executor: Any, *args: Any, **kwargs: Any) -> Any:
        modes = _get_current_dispatch_mode_stack()
        grid, hooks = executor.grid, executor.pre_run_hooks
        executor.grid = _under(modes, grid) if callable(grid) else grid
        executor.pre_run_hooks = [_under(modes, hook) for hook in hooks]
        try:
            with _disable_current_modes():
                return launch(executor, *args, **kwargs)
        finally:
            executor.grid, executor.pre_run_hooks = grid, hooks

    interpreter.GridExecutor.__call__ = unmetered


def _under(modes: list[Any], function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, called with these dispatch modes on."""

    def called(*args: Any, **kwargs: Any) -> Any:
        with contextlib.ExitStack() as stack:
            for mode in modes:
                stack.enter_context(mode)
            return function(*args, **kwargs)

    return called


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
