"""What Triton's interpreter has none of and does not say so: device libraries, told by name where a kernel calls one.

Covers what `triton.language.extra` offers for a target: libdevice, the clock and the number of a multiprocessor, grid
dependency control. In the interpreter some of it returns None, so that the kernel fails a line later, and the rest
asks for a @triton.jit that is there.
"""

from __future__ import annotations

import functools
import inspect
import sys
import types
from collections.abc import Callable
from typing import Any, NoReturn

from triton import language as tl
from triton.language.extra import libdevice

_PLACE = "triton.language.extra"


def announce() -> None:
    """From now on such a call raises NotImplementedError that names it. Call it where kernels are interpreted, before
    the candidate is imported: it may import the functions themselves."""
    for place, module in _modules():
        for name, value in inspect.getmembers(module, inspect.isfunction):
            if tl.core.is_builtin(value) or module is libdevice:
                setattr(module, name, _lacking(f"{place.removeprefix('triton.language.')}.{name}", value))


def _modules() -> list[tuple[str, types.ModuleType]]:
    """With their names. Triton imports a target's module twice: tl.extra shows one, sys.modules the other."""
    shown = inspect.getmembers(sys.modules[_PLACE], inspect.ismodule)
    listed = [(place, module) for place, module in sys.modules.items() if place.startswith(f"{_PLACE}.")]
    return [*listed, *((f"{_PLACE}.{name}", module) for name, module in shown)]


def _lacking(name: str, function: Callable[..., Any]) -> Callable[..., NoReturn]:
    @functools.wraps(function)
    def refuse(*_: Any, **__: Any) -> NoReturn:
        raise NotImplementedError(f"{name} not supported in interpreter mode")

    return refuse
