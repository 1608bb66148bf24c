"""static.reflection, static.files, static.undefined: code that makes code, reads its own machinery, leaves the process,
or uses what nobody defines."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from d2k_agent.contract import Violation
from d2k_agent.evaluator.rules.allow_list import (
    BUILTINS,
    KERNEL_BUILTINS,
    LABELS,
    SPECIAL_ATTRIBUTES,
    SPECIAL_METHODS,
)
from d2k_agent.evaluator.rules.facts import (
    AttributeStore,
    AttributeUse,
    BuiltinUse,
    Call,
    DynamicAttribute,
    Fact,
    PositionalPattern,
    SpecialName,
    TextAsCode,
)
from d2k_agent.evaluator.rules.machinery import OWN
from d2k_agent.evaluator.rules.policy import Policy
from d2k_agent.evaluator.rules.tensor_model import TYPE_OF
from d2k_agent.evaluator.rules.values import UNSURE, Kind, Value, external

_FILES = frozenset(["open", "input", "breakpoint", "help", "exit", "quit", "copyright", "license", "credits"])
_FILLING = frozenset(["format", "format_map"])
_MODULE_NAMES = frozenset(["__all__", "__version__", "__author__", "__date__", "__license__"])


def forbidden_builtins(facts: list[Fact], policy: Policy) -> Iterator[Violation]:
    """Built-in names outside the allow-list, and names that nobody defines: something else would have to."""
    for fact in facts:
        if not isinstance(fact, BuiltinUse):
            continue
        if not fact.known:
            message = f"nobody defines the name {fact.name}: is it misspelled, or is its import or definition missing?"
            yield Violation("static.undefined", message, fact.line)
        elif fact.name in _FILES:
            message = f"{fact.name}() leaves the candidate: run() may neither read nor write files, nor end the process"
            yield Violation("static.files", message, fact.line)
        elif fact.in_kernel and fact.name not in KERNEL_BUILTINS and _is_builtin(fact.name):
            message = f"{fact.name} inside a kernel: use triton.language"
            yield Violation("static.kernel_names", message, fact.line)
        elif not fact.in_kernel and fact.name not in BUILTINS and _is_builtin(fact.name):
            yield _violation(f"{fact.name} is not allowed: write out what it would look up or generate", fact.line)


def dynamic_attributes(facts: list[Fact], policy: Policy) -> Iterator[Violation]:
    """getattr and its like with a computed name, or handed on; type() with three arguments; text that is code."""
    for fact in facts:
        if isinstance(fact, DynamicAttribute) and fact.handed_on:
            yield _violation(
                f"{fact.function} as a value hides what is used: call it, with the name written out", fact.line
            )
        elif isinstance(fact, DynamicAttribute):
            yield _violation(
                f"{fact.function}() with a computed name hides what is used: write the name out", fact.line
            )
        elif isinstance(fact, PositionalPattern):
            yield _violation("a positional pattern hides which attributes it reads: write name=pattern", fact.line)
        elif isinstance(fact, TextAsCode):
            yield _violation("the text of an annotation is code that somebody may evaluate: name a type", fact.line)
        elif isinstance(fact, Call) and _makes_class(fact):
            yield _violation("type() of anything but one object makes a class: write a class statement", fact.line)
        elif isinstance(fact, Call) and fact.callee == external(TYPE_OF) and not _gets_one(fact):
            yield _violation("what type() gives is called, which may make a class: name the class", fact.line)


def special_attributes(facts: list[Fact], policy: Policy) -> Iterator[Violation]:
    """Attributes with double underscores: the way from an object to interpreter, frames and code."""
    for fact in facts:
        if isinstance(fact, AttributeUse | AttributeStore) and _is_special(fact.name):
            allowed = SPECIAL_ATTRIBUTES if isinstance(fact, AttributeUse) else LABELS
            if fact.name not in allowed:
                yield _violation(f".{fact.name} reaches behind the object: use its public attributes", fact.line)


def texts_that_read(facts: list[Fact], policy: Policy) -> Iterator[Violation]:
    """str.format of a text that is not written out, or whose fields read attributes: of frames, of anything."""
    for fact in facts:
        if isinstance(fact, AttributeUse) and fact.name in _FILLING and not _is_no_text(fact.receiver):
            message = f".{fact.name} may read any attribute by a text: write an f-string, or plain fields in a literal"
            yield _violation(message, fact.line)


def special_names(facts: list[Fact], policy: Policy) -> Iterator[Violation]:
    """Definitions of names with double underscores that change how Python or torch treats the candidate."""
    for fact in facts:
        if not isinstance(fact, SpecialName) or not _is_special(fact.name):
            continue
        if fact.in_class and fact.name not in SPECIAL_METHODS:
            message = (
                f"{fact.name} changes how others see the object: run() returns plain tensors, computed when it returns"
            )
            yield Violation("static.special_methods", message, fact.line)
        elif not fact.in_class and fact.name not in _MODULE_NAMES:
            yield _violation(f"{fact.name} belongs to Python: choose another name", fact.line)


def _is_no_text(value: Value) -> bool:
    """True for an instance of a class that derives from nothing, so that its `format` is one of its own."""
    if isinstance(value.node, ast.ClassDef) and (value.node.bases or value.node.keywords):
        return False
    return value.kind in OWN and value.path != UNSURE


def _makes_class(call: Call) -> bool:
    return call.callee.kind is Kind.BUILTIN and call.callee.path == "type" and not _gets_one(call)


def _gets_one(call: Call) -> bool:
    return len(call.arguments) == 1 and not call.keywords and not call.spread


def _is_builtin(name: str) -> bool:
    return _is_special(name) or name in _PYTHON


def _is_special(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def _violation(message: str, line: int) -> Violation:
    return Violation("static.reflection", message, line)


_PYTHON = frozenset(dir(__import__("builtins")))
