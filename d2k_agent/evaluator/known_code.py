"""Whose code a frame runs: told by the code itself, since the name of a file is a text that anybody can write."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from types import CodeType, FrameType, FunctionType
from typing import Any

_Cached = type(functools.cache(lambda: None))


class KnownCode:
    """The code of some packages, as it was when this was made. What comes later is nobody's."""

    def __init__(self, *packages: str) -> None:
        """`packages` are names of modules that were imported: each with all below it."""
        self._known: dict[int, tuple[CodeType, dict[str, Any], str]] = {}
        for name, module in list(sys.modules.items()):
            if name.startswith(tuple(f"{package}." for package in packages)) or name in packages:
                for code in _code_of(vars(module)):
                    self._known[id(code)] = code, vars(module), name

    def module_of(self, frame: FrameType) -> str:
        """The name of the module whose code a frame runs, over that module's own names; empty for any other."""
        _, names, module = self._known.get(id(frame.f_code), (None, None, ""))
        return module if names is frame.f_globals else ""


def _code_of(names: dict[str, Any]) -> Iterator[CodeType]:
    """What functions and classes of a module consist of, whatever common decorators were put around them."""
    todo, seen = list(names.values()), set[int]()
    while todo:
        value = todo.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, CodeType):
            yield value
            todo += value.co_consts
        elif isinstance(value, FunctionType):
            todo += [value.__code__] * (value.__globals__ is names)
            todo.append(value.__dict__.get("__wrapped__"))
        elif isinstance(value, _Cached):
            todo.append(value.__wrapped__)
        elif isinstance(value, (staticmethod, classmethod)):
            todo.append(value.__func__)
        elif isinstance(value, property):
            todo += [value.fget, value.fset]
        elif isinstance(value, type) and value.__module__ == names.get("__name__"):
            todo += vars(value).values()
