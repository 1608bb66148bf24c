"""static.monkeypatch, static.subclassing: changes of what the candidate does not own."""

from __future__ import annotations

from collections.abc import Iterator

from d2k_agent.contract import Violation
from d2k_agent.evaluator.rules.allow_list import BASE_CLASSES
from d2k_agent.evaluator.rules.facts import AttributeStore, ClassDefinition, Fact, ItemStore
from d2k_agent.evaluator.rules.policy import Policy
from d2k_agent.evaluator.rules.values import Kind

_FOREIGN = {
    Kind.EXTERNAL: "something imported",
    Kind.BUILTIN: "a built-in",
    Kind.TENSOR: "a tensor",
    Kind.TENSOR_METHOD: "a tensor's method",
    Kind.KERNEL: "a kernel",
    Kind.LAUNCHER: "a kernel",
    Kind.DTYPE: "a dtype",
}


def foreign_stores(facts: list[Fact], policy: Policy) -> Iterator[Violation]:
    """Attributes and items of imported modules, built-ins, tensors and kernels that are set or deleted."""
    for fact in facts:
        if isinstance(fact, AttributeStore) and fact.receiver.kind in _FOREIGN:
            what = fact.receiver.path or _FOREIGN[fact.receiver.kind]
            message = f".{fact.name} of {what} is changed: keep state in objects of your own, leave this one as it is"
            yield Violation("static.monkeypatch", message, fact.line)
        elif isinstance(fact, ItemStore) and fact.receiver.kind in (Kind.EXTERNAL, Kind.BUILTIN, Kind.KERNEL):
            message = f"an item of {fact.receiver.path or 'a kernel'} is changed: leave what is not yours as it is"
            yield Violation("static.monkeypatch", message, fact.line)


def foreign_bases(facts: list[Fact], policy: Policy) -> Iterator[Violation]:
    """Classes derived from what torch or Triton define."""
    for fact in facts:
        if not isinstance(fact, ClassDefinition):
            continue
        for base in fact.bases:
            if base not in BASE_CLASSES and not base.startswith(("typing.", "collections.abc.")):
                message = f"class {fact.name} derives from {base}: use plain classes, and return plain tensors"
                yield Violation("static.subclassing", message, fact.line)
