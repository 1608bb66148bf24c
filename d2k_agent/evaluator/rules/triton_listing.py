"""Prints what stands below modules of the installed Triton, as JSON. A script that imports nothing of ours.

Arguments: the modules' full names. The answer: for each module below them its public names, and for each name the
module that it is, "open" for Triton's own classes and their instances, "leaf" for its own functions and numbers, and ""
for what comes from elsewhere.
"""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import sys
import types


def listing(prefixes: list[str]) -> dict[str, dict[str, str]]:
    """The names of every module below `prefixes` that can be imported here."""
    for prefix in prefixes:
        _import_all(prefix)
    found = {name: module for name, module in sorted(sys.modules.items()) if _below(name, prefixes)}
    return {
        name: {key: _kind(value, prefixes) for key, value in vars(module).items() if not key.startswith("_")}
        for name, module in found.items()
    }


def _import_all(prefix: str) -> None:
    try:
        package = importlib.import_module(prefix)
    except ImportError:
        return  # of another version of Triton: a candidate cannot import it either
    for found in pkgutil.walk_packages(package.__path__, f"{prefix}.", onerror=lambda name: None):
        try:
            importlib.import_module(found.name)
        except (ImportError, AttributeError, OSError, RuntimeError):  # a part for other hardware, for a candidate too
            continue


def _kind(value: object, prefixes: list[str]) -> str:
    if isinstance(value, types.ModuleType):
        return value.__name__ if _below(value.__name__, prefixes) else ""
    if type(value) in (bool, int, float):
        return "leaf"
    if not _below(str(getattr(value, "__module__", "")), prefixes):
        return ""
    if isinstance(value, type) or _below(type(value).__module__, prefixes):
        return "open"
    tritons = isinstance(value, types.FunctionType) or type(value).__module__.startswith("triton.")
    return "leaf" if tritons else ""


def _below(name: str, prefixes: list[str]) -> bool:
    return any(name == prefix or name.startswith(f"{prefix}.") for prefix in prefixes)


if __name__ == "__main__":
    os.environ.pop("TRITON_INTERPRET", None)  # functions say whose they are where they are compiled
    sys.stdout.write(json.dumps(listing(sys.argv[1:])))
