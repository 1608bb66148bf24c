"""static.tensor_math, static.tensor_methods, static.casts, static.attributes: what torch computes outside kernels."""

from __future__ import annotations

import contextlib
import difflib
import functools
import types
from collections.abc import Iterator

import torch

from d2k_agent.contract import Violation
from d2k_agent.evaluator.rules.allow_list import EXCEPTIONS, KERNEL_ATTRIBUTES, KERNEL_TENSOR_ATTRIBUTES, MUTATORS
from d2k_agent.evaluator.rules.facts import (
    AttributeUse,
    Call,
    Fact,
    HostFunction,
    HostValue,
    MadeText,
    Operation,
    TensorIndex,
)
from d2k_agent.evaluator.rules.machinery import INSIDES, MACHINERY, OWN, is_own
from d2k_agent.evaluator.rules.policy import Policy
from d2k_agent.evaluator.rules.tensor_model import TYPE_OF
from d2k_agent.evaluator.rules.values import Kind, Value, attribute_names, contains_tensor, element

_COMPUTING_BUILTINS = frozenset("abs all any bool complex divmod float int max min pow round sorted sum filter".split())
_READING_BUILTINS = frozenset("ascii bytes format print repr str".split()) | EXCEPTIONS
"""They make texts of values; an exception's text leaves the process."""
_DEFINITELY_NO_TENSOR = (Kind.HOST, Kind.DTYPE, Kind.NONE, Kind.BUILTIN, Kind.INSTANCE, Kind.CLASS)
_OF_TENSORS = frozenset(dir(torch.Tensor))
_OF_LIBRARIES: tuple[tuple[frozenset[str], str], ...] = (
    (frozenset(dir(types.GeneratorType)), "an ordinary function, or a for loop over it"),
    (frozenset(dir(contextlib.ExitStack)), "a plain with statement"),
    (frozenset(dir(functools.singledispatch(len))), "isinstance() and if"),
    (frozenset(dir(functools.partial(len))), "a function of your own"),
    (frozenset(["_replace", "_asdict", "_make", "_fields", "_field_defaults"]), "a new tuple by the name of its class"),
)
"""Attributes that objects of the standard library have, and what does without them."""
_ADVICE = "compute it in a @triton.jit kernel"


def operators(facts: list[Fact], policy: Policy) -> Iterator[Violation]:
    """Arithmetic, comparisons and @ on tensors outside kernels; gathers and scatters by indexing."""
    for fact in facts:
        if isinstance(fact, Operation) and fact.symbol == "@":
            where = "a kernel: use tl.dot" if fact.in_kernel else f"host code is torch's matrix product: {_ADVICE}"
            yield Violation("static.tensor_math", f"@ in {where}", fact.line)
        elif isinstance(fact, Operation) and fact.tensors:
            message = f"the operator {fact.symbol} on a tensor is computed by torch: {_ADVICE}"
            yield Violation("static.tensor_math", message, fact.line)
        elif isinstance(fact, TensorIndex):
            message = f"indexing a tensor with a tensor gathers or scatters in torch: {_ADVICE}"
            yield Violation("static.tensor_math", message, fact.line)


def computing_calls(facts: list[Fact], policy: Policy) -> Iterator[Violation]:
    """Built-in and standard functions that compute with tensors, or read their values on the host."""
    for fact in facts:
        if isinstance(fact, MadeText) and contains_tensor(fact.value):
            message = f"a tensor as text is read on the host: name its shape or dtype, or {_ADVICE}"
            yield Violation("static.tensor_math", message, fact.line)
        if not isinstance(fact, Call):
            continue
        callee, arguments = _applied(fact)
        if not any(map(contains_tensor, arguments)):
            continue
        computes = callee.kind is Kind.BUILTIN and callee.path in _COMPUTING_BUILTINS | _READING_BUILTINS
        if callee.kind is Kind.EXTERNAL:
            computes = callee.path.startswith(("operator.", "math.")) and callee.path != "operator.itemgetter"
        if computes:
            message = f"{callee.path}() on a tensor computes or reads it on the host: {_ADVICE}"
            yield Violation("static.tensor_math", message, fact.line)


def _applied(call: Call) -> tuple[Value, tuple[Value, ...]]:
    """What is called with what; map and filter call their first argument."""
    if call.callee.kind is Kind.BUILTIN and call.callee.path in ("map", "filter") and call.arguments:
        function, *given = call.arguments
        if function.kind is not Kind.NONE:
            return function, tuple(map(element, given))
    return call.callee, call.arguments


def casts(facts: list[Fact], policy: Policy) -> Iterator[Violation]:
    """.to(dtype), and torch.tensor() of a tensor: conversions done by torch."""
    for fact in facts:
        if not isinstance(fact, Call):
            continue
        callee, keywords = fact.callee, dict(fact.keywords)
        if callee.kind is Kind.TENSOR_METHOD and callee.path in ("to", "cuda", "clone", "contiguous"):
            given = [*fact.arguments, keywords.get("dtype")]
            if any(value is not None and value.kind is Kind.DTYPE for value in given) or "dtype" in keywords:
                message = f".{callee.path}(dtype) converts in torch: load the tensor in a kernel and convert there"
                yield Violation("static.casts", message, fact.line)
        copies = callee.path in ("torch.tensor", "new_tensor") and callee.kind in (Kind.EXTERNAL, Kind.TENSOR_METHOD)
        if copies and any(map(contains_tensor, fact.arguments)):
            message = "torch.tensor() of tensors copies and converts in torch: allocate with empty and fill in a kernel"
            yield Violation("static.casts", message, fact.line)


def attributes(facts: list[Fact], policy: Policy) -> Iterator[Violation]:
    """Attributes of tensors, kernels and objects of unknown type outside the allow-list."""
    refused = _OF_TENSORS - policy.tensor - policy.attributes - KERNEL_ATTRIBUTES
    for fact in facts:
        if isinstance(fact, Call):
            # A field that the candidate defines may be read of anything unknown: called, it may be a tensor's method.
            for name in sorted(attribute_names(fact.callee) & refused):
                yield _of_unknown_type(name, fact.line, policy)
        if not isinstance(fact, AttributeUse) or (fact.name.startswith("__") and fact.name.endswith("__")):
            continue
        if fact.in_kernel:
            yield from _in_kernel(fact, policy)
        elif fact.name in INSIDES and fact.receiver.kind is not Kind.EXTERNAL:
            message = f".{fact.name} leads to code and frames of Python's: if it is a field of your own, rename it"
            yield Violation("static.attributes", message, fact.line)
        elif fact.receiver.is_tensor:
            if fact.name not in policy.tensor:
                message = f".{fact.name} of a tensor is not glue (allocation, views, queries): {_ADVICE}"
                yield Violation("static.tensor_methods", message, fact.line)
        elif fact.receiver.kind in (Kind.KERNEL, Kind.LAUNCHER):
            if fact.name not in KERNEL_ATTRIBUTES:
                yield Violation(
                    "static.kernel_use", f".{fact.name} of a kernel: launch it with kernel[grid](...)", fact.line
                )
        elif _unknown(fact, policy):
            yield _of_unknown_type(fact.name, fact.line, policy, of_type=fact.receiver.path == TYPE_OF)


def _in_kernel(fact: AttributeUse, policy: Policy) -> Iterator[Violation]:
    by_full_name = fact.receiver.kind is Kind.EXTERNAL
    known = KERNEL_TENSOR_ATTRIBUTES | (policy.attributes - MUTATORS)
    if not (by_full_name or fact.name in known or (is_own(fact) and not fact.method)):
        message = f".{fact.name} is no attribute of a value in a kernel: use functions of triton.language"
        yield Violation("static.kernel_names", message, fact.line)


def _of_unknown_type(name: str, line: int, policy: Policy, of_type: bool = False) -> Violation:
    object_ = f".{name} of an object of unknown type"
    instead = next((words for names, words in _OF_LIBRARIES if name in names), None)
    if of_type:
        message = f".{name} of what type() gives: name the class, as in Own.{name}, if it is one of your own"
    elif name in _OF_TENSORS:
        message = f"{object_}: if it is a tensor, {_ADVICE}; else give it another name"
    elif instead is not None:
        message = (
            f"{object_}: the rules cannot follow what this is; if it is the standard library's, write {instead} "
            "instead, else give it another name"
        )
    elif name.startswith("_"):
        message = f"{object_}: a library's object may have it; give a field of your own a name without the underscore"
    else:
        near = difflib.get_close_matches(name, sorted(policy.tensor & _OF_TENSORS), n=1)
        meant = f" (did you mean .{near[0]}?)" if near else ""
        message = (
            f"{object_}: tensors have no attribute of that name{meant}; if it is something else, the rules cannot"
            " follow what, so write it without"
        )
    return Violation("static.attributes", message, line)


def kernel_calls(facts: list[Fact], policy: Policy) -> Iterator[Violation]:
    """A kernel called like a Python function would run its body in torch; a kernel's values belong to no host code."""
    for fact in facts:
        if isinstance(fact, HostFunction):
            message = f"{fact.name} inside a kernel is a function of the host's: make it a @triton.jit function"
            yield Violation("static.kernel_names", message, fact.line)
        if isinstance(fact, HostValue):
            message = (
                f"{fact.name} inside a kernel is the host's, and no number, text, dtype or kernel that the rules can"
                " follow: hand it over as an argument, or write a constant as tl.constexpr(...) in the module"
            )
            yield Violation("static.kernel_names", message, fact.line)
        if isinstance(fact, Call) and not fact.in_kernel and fact.callee.kind is Kind.KERNEL:
            message = "a kernel is called like a Python function: launch it with kernel[grid](...)"
            yield Violation("static.kernel_use", message, fact.line)


def _unknown(fact: AttributeUse, policy: Policy) -> bool:
    receiver, known = fact.receiver, policy.tensor | policy.attributes | KERNEL_ATTRIBUTES
    if receiver.kind in OWN and fact.name in (_OF_TENSORS | MACHINERY) - known:
        return not fact.own  # a method that is called through a container may get a tensor for self
    if receiver.kind in _DEFINITELY_NO_TENSOR:
        return fact.name.startswith("_") and not is_own(fact)
    if receiver.kind is Kind.EXTERNAL and "()" not in receiver.path:
        return False  # judged by its full name
    if is_own(fact) and not (fact.method and fact.name in _OF_TENSORS):
        return False
    return fact.name not in known
