"""Which parameters of run() are tensors: those used as one, and the first, unless they say otherwise."""

from __future__ import annotations

import ast

from d2k_agent.evaluator.rules.allow_list import TENSOR
from d2k_agent.evaluator.rules.program import FunctionNode, parameters
from d2k_agent.evaluator.rules.values import TENSOR as A_TENSOR
from d2k_agent.evaluator.rules.values import Kind, Value

_AMBIGUOUS = frozenset(["size", "split", "select", "index", "layout", "type", "t", "T"])
"""Attributes of tensors that other objects have too."""


def run_input(tree: ast.Module, node: FunctionNode, name: str, known: Value) -> Value:
    """The value of a parameter: `known`, or a tensor where `node` is the module's run() and it looks like one.

    The evaluator calls run() with the task's inputs, of which the first is a tensor.
    """
    if known.kind is not Kind.UNKNOWN or node not in tree.body or getattr(node, "name", "") != "run":
        return known
    first = parameters(node)[:1] == [name]
    return A_TENSOR if first or _used_as_tensor(node, name) else known


def _used_as_tensor(node: FunctionNode, name: str) -> bool:
    return any(
        isinstance(part, ast.Attribute)
        and isinstance(part.value, ast.Name)
        and part.value.id == name
        and part.attr in TENSOR - _AMBIGUOUS
        for part in ast.walk(node)
    )
