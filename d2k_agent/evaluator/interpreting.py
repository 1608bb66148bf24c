"""Triton's interpreter as the CPU device uses it: nothing of its own for meters to see, and no slow bookkeeping.

What an interpreted kernel computes is not changed here (numerics does that).
"""

from __future__ import annotations

import inspect
from typing import Any

from triton import language as tl
from triton.runtime import interpreter


def prepare() -> None:
    """Apply both to the interpreter of this process, once."""
    _take_arguments_as_they_are()
    _remember_builtins()


def _take_arguments_as_they_are() -> None:
    """Triton copies tensors to the processor and back, with operators of PyTorch that no meter should see.

    Here they lie there already. What is left of a launch uses no operator, so a meter stays on in all of it: in code
    of a candidate that a launch runs (a grid, a hook, a property of an argument, the kernel itself) it sees everything.
    """

    def as_they_are(_: Any, args: Any, kwargs: Any) -> tuple[Any, Any]:
        return args, kwargs

    def nothing_to_copy_back(*_: Any) -> None:
        return None

    interpreter.GridExecutor._init_args_hst = as_they_are  # noqa: SLF001
    interpreter.GridExecutor._restore_args_dev = nothing_to_copy_back  # noqa: SLF001


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
