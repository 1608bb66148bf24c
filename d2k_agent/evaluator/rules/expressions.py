"""Walks expressions of host code: gives each a value and notes facts about names, attributes, operators and calls."""

from __future__ import annotations

import ast
import string
from collections.abc import Callable

from d2k_agent.evaluator.rules import facts, tensor_model
from d2k_agent.evaluator.rules.allow_list import LABELS
from d2k_agent.evaluator.rules.program import FunctionNode, Program
from d2k_agent.evaluator.rules.scopes import Scope
from d2k_agent.evaluator.rules.values import (
    HOST,
    NONE,
    TENSOR,
    UNKNOWN,
    Kind,
    Value,
    as_list,
    contains_tensor,
    element,
    external,
    items,
    join,
    join_all,
    many,
)

_SYMBOLS = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.MatMult: "@", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%",
    ast.Pow: "**", ast.LShift: "<<", ast.RShift: ">>", ast.BitOr: "|", ast.BitXor: "^", ast.BitAnd: "&",
    ast.UAdd: "+", ast.USub: "-", ast.Invert: "~", ast.Not: "not",
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
}  # fmt: skip

DefineFunction = Callable[[FunctionNode, Scope], None]


class Expressions:
    """Evaluates expressions in a scope that its owner moves along. `owner` is the function being walked, or None."""

    def __init__(self, program: Program, scope: Scope, owner: ast.AST | None, define: DefineFunction) -> None:
        self.program, self.scope, self.owner = program, scope, owner
        self._define = define
        self.in_class = False
        """True in the body of a class itself."""
        self.in_annotation = False
        """True in an annotation, whose names nobody need define where nobody evaluates it."""
        self.asks = False
        """True in what isinstance() compares with."""

    def value(self, node: ast.expr | None) -> Value:
        """The value of an expression, with its facts noted."""
        if node is None:
            return NONE
        self.program.now.read.add(node)
        method = getattr(self, f"_{type(node).__name__.lower()}", None)
        if method is not None:
            result: Value = method(node)
            return result
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.value(child)
        return UNKNOWN

    def load(self, name: str, line: int) -> Value:
        """The value of a name; a name that nobody binds is a built-in one."""
        value = self.program.lookup(self.scope, name)
        if value is None:
            known = self.in_annotation or self.program.defines(name)
            self.program.emit(facts.BuiltinUse(line, False, name, known))
            return Value(Kind.BUILTIN, name)
        return value

    def _constant(self, node: ast.Constant) -> Value:
        return NONE if node.value is None else HOST

    def _joinedstr(self, node: ast.JoinedStr) -> Value:
        for part in node.values:
            self.value(part)
        return HOST

    def _formattedvalue(self, node: ast.FormattedValue) -> Value:
        self.program.emit(facts.MadeText(node.lineno, False, self.value(node.value)))
        self.value(node.format_spec)
        return HOST

    def _name(self, node: ast.Name) -> Value:
        return self.named(node)

    def _attribute(self, node: ast.Attribute) -> Value:
        return self.named(node)

    def named(self, node: ast.Name | ast.Attribute, aliased: bool = False) -> Value:
        """The value of a name or of a chain of attributes; `aliased` when it is only given another name."""
        self.program.now.read.add(node)
        if isinstance(node, ast.Name):
            value = self.load(node.id, node.lineno)
            self._handed_on(value, node.lineno)
            self._refer(value)
            self._external(value, node.lineno, aliased)
            return value
        if self._names_a_class(node) or self._fills_a_text(node):
            return HOST
        return self.used_attribute(self.holder(node.value), node.attr, node.lineno, aliased)

    def _names_a_class(self, node: ast.Attribute) -> bool:
        """True for `x.__class__.__name__` and its like, which is a text: the class itself goes to nobody."""
        inner = node.value
        if node.attr not in LABELS or not isinstance(inner, ast.Attribute) or inner.attr != "__class__":
            return False
        self.program.now.read.add(inner)
        self.value(inner.value)
        return True

    def _fills_a_text(self, node: ast.Attribute) -> bool:
        """True for `"...".format` of a text that is written out, here or as a constant of the module, and whose fields
        read nothing of what fills them.
        """
        text = node.value.value if isinstance(node.value, ast.Constant) else None
        if isinstance(node.value, ast.Name):
            text = self.program.texts.get(node.value.id)
        if node.attr != "format" or not isinstance(text, str) or _reads_attributes(text):
            return False
        self.program.now.read.add(node.value)
        return True

    def used_attribute(self, receiver: Value, name: str, line: int, aliased: bool = False) -> Value:
        """The value of `receiver.name` where it is used itself, not only on the way to an attribute of its own."""
        result = self.attribute(receiver, name, line)
        used = external(f"{receiver.path}.{name}") if receiver.kind is Kind.EXTERNAL else result
        self._external(used, line, aliased)
        return result

    def holder(self, node: ast.expr) -> Value:
        """The value of what an attribute is taken of: a module's own name is no use of the module yet."""
        self.program.now.read.add(node)
        if isinstance(node, ast.Name):
            value = self.load(node.id, node.lineno)
            self._handed_on(value, node.lineno)
            self._refer(value, called=True)
            return value
        if isinstance(node, ast.Attribute):
            if self._names_a_class(node) or self._fills_a_text(node):
                return HOST
            receiver = self.holder(node.value)
            return self.attribute(receiver, node.attr, node.lineno)
        return self.value(node)

    def attribute(self, receiver: Value, name: str, line: int) -> Value:
        """The value of `receiver.name`."""
        own, method = name in self.program.own_names, name in self.program.own_methods
        self.program.emit(facts.AttributeUse(line, False, receiver, name, own, method))
        if receiver.kind is Kind.EXTERNAL:
            return tensor_model.external_attribute(f"{receiver.path}.{name}")
        if receiver.is_tensor:
            return tensor_model.tensor_attribute(name)
        if receiver.kind in (Kind.INSTANCE, Kind.CLASS) and receiver.node is not None:
            return self._member(receiver, name)
        if receiver.kind is Kind.HOST:
            return receiver
        if receiver.kind is Kind.DTYPE:
            return HOST
        if receiver.kind in (Kind.MANY, Kind.ITEMS) and name in ("get", "pop", "setdefault", "popleft"):
            return Value(Kind.UNKNOWN, items=(element(receiver),))
        if self.program.is_kernel(receiver) and name == "run":
            self.program.now.launching.add(self.owner)
        self.program.now.named_calls[self.owner].add(name)
        if method:
            self.program.now.unbound.update(self.program.methods_of_values(name))
        return Value(Kind.UNKNOWN, path=name) if own else UNKNOWN

    def _member(self, receiver: Value, name: str) -> Value:
        assert receiver.node is not None
        value = self.program.attribute(receiver.node, name)
        self.program.now.named_calls[self.owner].add(name)
        if receiver.kind is Kind.CLASS and value.path not in ("classmethod", "staticmethod", "property"):
            self.program.now.unbound.update(self.program.methods.get(name, ()))
        if value.kind is not Kind.FUNCTION:
            return value
        if value.path == "property":
            return self.program.result(value.node) if value.node else UNKNOWN
        bound = receiver.kind is Kind.INSTANCE or value.path == "classmethod"
        return Value(Kind.BOUND, node=value.node) if bound and value.path != "staticmethod" else value

    def _handed_on(self, value: Value, line: int) -> None:
        """getattr and its like may only be called, since each call is judged by the name that it gives; so may type."""
        named = ("getattr", "setattr", "delattr") if self.in_annotation else ("getattr", "setattr", "delattr", "type")
        if value.kind is Kind.BUILTIN and value.path in named:
            self.program.emit(facts.DynamicAttribute(line, False, value.path, handed_on=True))

    def _external(self, value: Value, line: int, aliased: bool = False) -> None:
        if value.kind is Kind.EXTERNAL:
            asked = self.in_annotation or self.asks
            self.program.emit(facts.ExternalUse(line, False, value.path, aliased, asked=asked))

    def _refer(self, value: Value, called: bool = False) -> None:
        """Remember that the code being walked reaches a function, and whether it may be called out of sight."""
        if value.node is None:
            return
        self.program.now.references[self.owner].add(value.node)
        if not called and value.kind is Kind.CLASS:
            self.program.now.class_values.add(value.node)
        if not called and value.kind in (Kind.FUNCTION, Kind.BOUND):
            self.program.now.escaped.add(value.node)

    def _binop(self, node: ast.BinOp) -> Value:
        left, right = self.value(node.left), self.value(node.right)
        return self.operation(node.op, left, right, node.lineno)

    def operation(self, operator: ast.operator, left: Value, right: Value, line: int) -> Value:
        """The value of a binary operator."""
        tensors = left.is_tensor or right.is_tensor
        self.program.emit(facts.Operation(line, False, _SYMBOLS[type(operator)], tensors))
        if tensors or isinstance(operator, ast.MatMult):
            return TENSOR
        sequences = (Kind.ITEMS, Kind.MANY)
        if isinstance(operator, ast.Mult) and left.kind in sequences:
            return many(left.items)
        if isinstance(operator, ast.Add) and left.kind in sequences and right.kind in sequences:
            return many([*left.items, *right.items])
        return join(left, right) if left.kind is right.kind is Kind.HOST else UNKNOWN

    def _unaryop(self, node: ast.UnaryOp) -> Value:
        value = self.value(node.operand)
        self.program.emit(facts.Operation(node.lineno, False, _SYMBOLS[type(node.op)], value.is_tensor))
        return HOST if isinstance(node.op, ast.Not) else value

    def _compare(self, node: ast.Compare) -> Value:
        left = self.value(node.left)
        result = HOST  # unless an operand may be a tensor: then so may the result
        for operator, right_node in zip(node.ops, node.comparators, strict=True):
            right = self.value(right_node)
            symbol = _SYMBOLS.get(type(operator))
            if symbol is not None:
                tensors = left.is_tensor or right.is_tensor
                self.program.emit(facts.Operation(node.lineno, False, symbol, tensors))
                unsure = Kind.UNKNOWN in (left.kind, right.kind, result.kind)
                result = TENSOR if tensors or result.is_tensor else UNKNOWN if unsure else HOST
            left = right
        return result

    def _boolop(self, node: ast.BoolOp) -> Value:
        return join_all(self.value(part) for part in node.values)

    def _ifexp(self, node: ast.IfExp) -> Value:
        self.value(node.test)
        return join(self.value(node.body), self.value(node.orelse))

    def _starred(self, node: ast.Starred) -> Value:
        return self.value(node.value)

    def _tuple(self, node: ast.Tuple | ast.List) -> Value:
        values = [self.value(item) for item in node.elts]
        if not values:
            return UNKNOWN
        if any(isinstance(item, ast.Starred) for item in node.elts):
            spread = zip(node.elts, values, strict=True)
            return many([element(value) if isinstance(item, ast.Starred) else value for item, value in spread])
        return items(values)

    def _list(self, node: ast.List) -> Value:
        return as_list(self._tuple(node))

    def _set(self, node: ast.Set) -> Value:
        return many([self.value(item) for item in node.elts])

    def _dict(self, node: ast.Dict) -> Value:
        for key in node.keys:
            self.value(key)
        return many([self.value(item) for item in node.values])

    def _slice(self, node: ast.Slice) -> Value:
        for part in (node.lower, node.upper, node.step):
            self.value(part)
        return HOST

    def _subscript(self, node: ast.Subscript) -> Value:
        receiver, index = self.value(node.value), self.value(node.slice)
        if receiver.is_tensor:
            if contains_tensor(index):
                self.program.emit(facts.TensorIndex(node.lineno, False))
            return TENSOR
        if self.program.is_kernel(receiver):
            return Value(Kind.LAUNCHER, node=receiver.node)
        if receiver.kind is Kind.ITEMS:
            return _item(receiver, node.slice)
        if receiver.kind is Kind.MANY:
            return receiver if isinstance(node.slice, ast.Slice) else element(receiver)
        return receiver if receiver.kind is Kind.HOST else UNKNOWN


def _reads_attributes(text: str) -> bool:
    """True where a field of a text names an attribute or an item, or where str.format cannot read the text."""
    try:
        parts = [(field, inner) for _, field, inner, _ in string.Formatter().parse(text) if field is not None]
    except ValueError:
        return True
    return any("." in field or "[" in field or _reads_attributes(inner or "") for field, inner in parts)


def _item(receiver: Value, index: ast.expr) -> Value:
    if isinstance(index, ast.Slice):
        return many(receiver.items)
    position = _integer(index)
    if position is not None and -len(receiver.items) <= position < len(receiver.items):
        return receiver.items[position]
    return join_all(receiver.items)


def _integer(node: ast.expr) -> int | None:
    """The value of an integer written out, with or without a minus."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        positive = _integer(node.operand)
        return None if positive is None else -positive
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, int) else None
