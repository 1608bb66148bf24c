"""The life of a process that executes hidden/sol.py: bounded seconds and memory, JSON in and JSON out.

Started as a file, without this package. A process of its own because no signal interrupts a sum over a long range, and
because the file may be a stranger's. Does not cover what is no arithmetic, and what counts must be: speed_of_light.py.
"""

from __future__ import annotations

import json
import math
import resource
import signal
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import Any, NoReturn

BUILTINS = {item.__name__: item for item in (abs, float, int, len, max, min, range, round, sum)}
"""All that sol.py has beside its own functions."""
COMPUTING_S = 2
MOST_BYTES = 1 << 30
_MOST_CHARS = 80
_MOST_ENTRIES = 100
"""More than there are classes of products: what has more is no counts."""


def answer(path: str, text: str, names: Sequence[str], workloads: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What the functions of `names` return for each workload, as far as the file defines them: `calls`, a row each.

    `lines` has where they are defined, by name. Where anything is raised instead, `problem` is its line and its words.
    """
    defined: dict[str, Any] = {"__builtins__": dict(BUILTINS)}
    try:
        exec(compile(text, path, "exec"), defined)
        known: dict[str, Callable[..., object]] = {name: defined[name] for name in names if callable(defined.get(name))}
        calls = [{name: _told(call(dict(workload))) for name, call in known.items()} for workload in workloads]
    except Exception as problem:  # noqa: BLE001 - the task's author wrote it, and raises what they like
        lines = [frame.lineno for frame in traceback.extract_tb(problem.__traceback__) if frame.filename == path]
        return {"problem": [lines[-1] if lines else 1, f"{type(problem).__name__}: {problem!s:.200}"]}
    return {"lines": {name: _line(call) for name, call in known.items()}, "calls": calls}


def _line(call: Callable[..., object]) -> int:
    return call.__code__.co_firstlineno if isinstance(call, FunctionType) else 1


def _told(value: object) -> dict[str, Any]:
    """A value that can be counts, else None; and what it looks like."""
    try:
        shown = repr(value)[:_MOST_CHARS]
    except (ValueError, RecursionError):  # too many digits, or too deep
        shown = f"something of type {type(value).__name__}"
    return {"value": _plain(value), "shown": shown}


def _plain(value: object) -> object:
    if isinstance(value, dict) and len(value) <= _MOST_ENTRIES:
        return {str(name): None if isinstance(item, dict) else _plain(item) for name, item in value.items()}
    if isinstance(value, int) and not isinstance(value, bool):
        return value if value.bit_length() < sys.float_info.max_exp else math.inf
    return value if isinstance(value, float) else None


def _too_long(*_: object) -> NoReturn:
    raise TimeoutError(f"it computes for more than {COMPUTING_S} s")


def _bound(kind: int, soft: int, hard: int) -> None:
    """Set a limit, or keep the one that is there where that is lower."""
    _, most = resource.getrlimit(kind)
    if most != resource.RLIM_INFINITY:
        soft, hard = min(soft, most), min(hard, most)
    resource.setrlimit(kind, (soft, hard))


def main() -> None:
    """Answer what stdin asks. Ended by the system where a call can neither be interrupted nor ends."""
    asked = json.load(sys.stdin)
    signal.signal(signal.SIGXCPU, _too_long)
    _bound(resource.RLIMIT_CORE, 0, 0)
    _bound(resource.RLIMIT_CPU, COMPUTING_S, COMPUTING_S + 1)
    _bound(resource.RLIMIT_AS, MOST_BYTES, MOST_BYTES)
    json.dump(answer(**asked), sys.stdout)


if __name__ == "__main__":
    main()
