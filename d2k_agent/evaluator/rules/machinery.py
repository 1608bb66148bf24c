"""Names by which Python's and Triton's own objects lead to code, frames, files and arrays: no field of a candidate's
own excuses them."""

from __future__ import annotations

import importlib.machinery
import types
import typing

from d2k_agent.evaluator.rules.facts import AttributeUse
from d2k_agent.evaluator.rules.values import Kind

_SUSPENDED = (types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType)
_RUNNING = (types.FrameType, types.CodeType, types.TracebackType, *_SUSPENDED)
_LOADING = (
    importlib.machinery.SourceFileLoader,
    importlib.machinery.ExtensionFileLoader,
    importlib.machinery.FileFinder,
    importlib.machinery.ModuleSpec,
)


def _attributes(*kinds: type) -> frozenset[str]:
    return frozenset(name for kind in kinds for name in dir(kind) if not name.startswith("__"))


INSIDES = frozenset(name for name in _attributes(*_RUNNING) if "_" in name) | _attributes(typing.ForwardRef)
"""Refused of every value: even what looks like an instance of the candidate's own may be another object, as self is
where a method is called through a container."""
_INTERPRETED = frozenset("handle data attr set_attr".split())
"""Of what a kernel computes with where it is interpreted: the array below."""
_KERNELS = frozenset(["fn", "base_fn"])
"""Of a kernel: the Python function below."""
_MODULES = frozenset("loader loader_state origin submodule_search_locations".split())
"""Of what says where a module comes from, besides what its class shows."""
MACHINERY = (
    INSIDES
    | _attributes(*_RUNNING, *_LOADING, types.FunctionType, types.MethodType, types.ModuleType)
    | _INTERPRETED
    | _KERNELS
    | _MODULES
)
OWN = (Kind.INSTANCE, Kind.CLASS)
"""What looks like the candidate's own."""


def is_own(fact: AttributeUse) -> bool:
    """True where an attribute may be taken for one that the candidate defines, whatever the value is.

    Private names are the candidate's where its own classes are asked for them.
    """
    if fact.receiver.kind in OWN:
        return fact.name not in INSIDES
    gave_back = fact.receiver.kind is Kind.EXTERNAL  # what a library's function returns has that library's attributes
    return fact.own and not gave_back and not fact.name.startswith("_") and fact.name not in MACHINERY
