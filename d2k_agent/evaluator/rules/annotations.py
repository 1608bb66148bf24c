"""Walks annotations of host code: what they say a value holds, and that a text among them is no code."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from d2k_agent.evaluator.rules import facts
from d2k_agent.evaluator.rules.calls import Calls
from d2k_agent.evaluator.rules.values import DTYPE, HOST, TENSOR, UNKNOWN, Kind, Value

_PLAIN = (
    ast.Name, ast.Attribute, ast.Subscript, ast.Tuple, ast.List, ast.Constant, ast.Starred, ast.BinOp, ast.BitOr,
    ast.UnaryOp, ast.USub, ast.expr_context,
)  # fmt: skip
"""What names a type and runs nothing of its own."""
_HOLDING_WORDS = frozenset(["Literal", "Annotated"])


class Annotations(Calls):
    """Expressions with calls and with annotations."""

    def annotation(self, node: ast.expr | None) -> Value:
        """What a parameter or field with this annotation holds."""
        if node is None:
            return UNKNOWN
        self.program.now.read.add(node)
        for text in _texts(node):
            self._text(text)
        if isinstance(node, ast.Constant):
            return UNKNOWN
        value = self._type(node)
        if value.path == "torch.Tensor":
            return TENSOR
        if value.kind is Kind.BUILTIN and value.path in ("int", "float", "bool", "str"):
            return HOST
        return DTYPE if value.path == "torch.dtype" else UNKNOWN

    def _type(self, node: ast.expr) -> Value:
        outer, self.in_annotation = self.in_annotation, all(isinstance(part, _PLAIN) for part in ast.walk(node))
        value = self.value(node)
        self.in_annotation = outer
        return value

    def _text(self, text: ast.Constant) -> None:
        """A text is what Python would evaluate: `(text,)`, since it takes a star as well. Words are no expression."""
        try:
            parsed = ast.parse(f"({text.value!s}\n,)", mode="eval")
        except (SyntaxError, ValueError):
            return
        assert isinstance(parsed, ast.Expression)
        for part in ast.walk(parsed.body):
            if not isinstance(part, _PLAIN):
                self.program.emit(facts.TextAsCode(text.lineno, False))
            if isinstance(part, ast.expr):
                ast.copy_location(part, text)
        self.annotation(parsed.body)


def _texts(node: ast.expr) -> Iterator[ast.Constant]:
    """Texts of an annotation that stand for types; those of Literal and Annotated are for people."""
    if isinstance(node, ast.Constant):
        if isinstance(node.value, str):
            yield node
        return
    if isinstance(node, ast.Subscript) and _last_name(node.value) in _HOLDING_WORDS:
        return
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            yield from _texts(child)


def _last_name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
