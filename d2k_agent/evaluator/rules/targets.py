"""Walks what binds names in host code: assignments to names, items, attributes and elements."""

from __future__ import annotations

import ast

from d2k_agent.evaluator.rules import facts
from d2k_agent.evaluator.rules.annotations import Annotations
from d2k_agent.evaluator.rules.program import comprehension_names
from d2k_agent.evaluator.rules.scopes import Scope
from d2k_agent.evaluator.rules.values import Kind, Value, contains_tensor, element, is_plain, many


class Targets(Annotations):
    """Expressions with calls, with annotations and with names that expressions bind."""

    def _namedexpr(self, node: ast.NamedExpr) -> Value:
        value = self.value(node.value)
        self.assign(node.target, value)
        return value

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> Value:
        outer, self.scope = self.scope, Scope(local=comprehension_names(node), parent=self.scope)
        for generator in node.generators:
            self.assign(generator.target, element(self.value(generator.iter)))
            for condition in generator.ifs:
                self.value(condition)
        if isinstance(node, ast.DictComp):
            self.value(node.key)
            result = self.value(node.value)
        else:
            result = self.value(node.elt)
        self.scope = outer
        return many([result])

    _listcomp = _setcomp = _generatorexp = _dictcomp = _comprehension

    def assign(self, target: ast.expr, value: Value) -> None:
        """Bind a target: a name, items, an attribute, an element."""
        self.program.now.read.add(target)
        if isinstance(target, ast.Name):
            self.bind(target.id, value, target.lineno)
        elif isinstance(target, (ast.Tuple, ast.List)):
            self._unpack(target, value)
        elif isinstance(target, ast.Starred):
            self.assign(target.value, many([value]))
        elif isinstance(target, ast.Attribute):
            receiver = self.value(target.value)
            plain = target.attr in self.program.fields and is_plain(value)
            self.program.emit(facts.AttributeStore(target.lineno, False, receiver, target.attr, plain))
            if receiver.kind in (Kind.INSTANCE, Kind.CLASS) and receiver.node is not None:
                self.program.merge_attribute(receiver.node, target.attr, value)
        elif isinstance(target, ast.Subscript):
            receiver, index = self.value(target.value), self.value(target.slice)
            self.program.emit(facts.ItemStore(target.lineno, False, receiver))
            if receiver.is_tensor and contains_tensor(index):
                self.program.emit(facts.TensorIndex(target.lineno, False))

    def bind(self, name: str, value: Value, line: int) -> None:
        """Bind a name, here or in the module when it is declared global."""
        if name.startswith("__"):
            self.program.emit(facts.SpecialName(line, False, name, self.in_class and name not in self.scope.foreign))
        if name in self.scope.foreign:
            self.program.merge_global(name, value)
        else:
            self.scope.bind(name, value)

    def _unpack(self, target: ast.Tuple | ast.List, value: Value) -> None:
        exact = value.kind is Kind.ITEMS and len(value.items) == len(target.elts)
        starred = any(isinstance(item, ast.Starred) for item in target.elts)
        for position, item in enumerate(target.elts):
            self.assign(item, value.items[position] if exact and not starred else element(value))
