"""Walks calls and function definitions of host code: what is passed to whom, and what comes back."""

from __future__ import annotations

import ast

from d2k_agent.evaluator.rules import facts, tensor_model
from d2k_agent.evaluator.rules.expressions import Expressions
from d2k_agent.evaluator.rules.kernel_names import of_triton
from d2k_agent.evaluator.rules.program import FunctionNode, parameters
from d2k_agent.evaluator.rules.values import HOST, NONE, UNKNOWN, Kind, Value, join

_NAMED_ATTRIBUTES = ("getattr", "hasattr", "setattr", "delattr")
_MARKS = ("staticmethod", "classmethod", "property")

Keywords = tuple[tuple[str, Value], ...]


class Calls(Expressions):
    """Expressions with calls."""

    def _lambda(self, node: ast.Lambda) -> Value:
        self.function_defaults(node)
        self._define(node, self.scope)
        self.program.now.references[self.owner].add(node)
        return Value(Kind.FUNCTION, node=node)

    def function_defaults(self, node: FunctionNode) -> None:
        """Defaults are evaluated where the function is defined, and are what a parameter may be."""
        positional = [*node.args.posonlyargs, *node.args.args]
        pairs = list(zip(reversed(positional), reversed(node.args.defaults), strict=False))
        pairs += [
            (argument, default)
            for argument, default in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
            if default
        ]
        for argument, default in pairs:
            self.program.merge_argument(node, argument.arg, self.value(default))

    def _call(self, node: ast.Call) -> Value:
        callee = self._callee(node.func)
        by_name = callee.kind is Kind.BUILTIN and callee.path in _NAMED_ATTRIBUTES
        # The object of getattr is no value handed on: the name that follows is what is used of it.
        arguments = tuple(
            self.holder(argument) if by_name and position == 0 else self._asked(argument, callee, position)
            for position, argument in enumerate(node.args)
        )
        keywords = tuple((keyword.arg or "**", self.value(keyword.value)) for keyword in node.keywords)
        if by_name:
            return self._named_attribute(node, callee.path, arguments)
        spread = any(isinstance(argument, ast.Starred) for argument in node.args)
        self.program.emit(facts.Call(node.lineno, False, callee, arguments, keywords, spread))
        if isinstance(node.func, ast.Attribute) and node.func.attr == "format":
            for given in (*arguments, *(value for _, value in keywords)):
                self.program.emit(facts.MadeText(node.lineno, False, given))
        if callee.kind is Kind.LAUNCHER or (isinstance(node.func, ast.Subscript) and callee.kind is Kind.UNKNOWN):
            self.program.now.launching.add(self.owner)
            return HOST if callee.kind is Kind.LAUNCHER else UNKNOWN
        if callee.kind is Kind.UNKNOWN:
            return callee.items[0] if callee.items else UNKNOWN
        return self.apply(callee, arguments, keywords, node)

    def _asked(self, node: ast.expr, callee: Value, position: int) -> Value:
        """The value of an argument: isinstance() only looks at the class that it is given."""
        looks = callee.kind is Kind.BUILTIN and callee.path in ("isinstance", "issubclass") and position == 1
        if not looks:
            return self.value(node)
        names = (ast.Name, ast.Attribute, ast.Tuple, ast.BinOp, ast.BitOr, ast.expr_context)
        outer, self.asks = self.asks, all(isinstance(part, names) for part in ast.walk(node))
        value = self._callee(node)
        self.asks = outer
        return value

    def _callee(self, node: ast.expr) -> Value:
        if not isinstance(node, ast.Name):
            return self.value(node)
        self.program.now.read.add(node)
        value = self.load(node.id, node.lineno)
        self._refer(value, called=True)
        self._external(value, node.lineno)
        return value

    def apply(
        self,
        callee: Value,
        arguments: tuple[Value, ...],
        keywords: Keywords,
        node: ast.Call | None,
    ) -> Value:
        """The value of a call; `node` is None for a decorator."""
        if callee.kind is Kind.EXTERNAL:
            constant = of_triton(self.program, callee.path, [*arguments, *(value for _, value in keywords)])
            if constant is not None:
                return constant
            result = tensor_model.external_result(callee.path, arguments)
            if result.kind is Kind.KERNEL and result.node is not None:
                self.program.now.kernels.add(result.node)
            return result
        if callee.kind is Kind.BUILTIN:
            if callee.path in _MARKS and arguments and arguments[0].kind is Kind.FUNCTION:
                return Value(Kind.FUNCTION, callee.path, arguments[0].node)
            if callee.path == "staticmethod" and arguments and arguments[0].kind is Kind.KERNEL:
                return arguments[0]
            return tensor_model.builtin_result(callee.path, arguments)
        if callee.kind is Kind.TENSOR_METHOD:
            return tensor_model.tensor_method_result(callee.path)
        if callee.node is None:
            return UNKNOWN
        if callee.kind is Kind.CLASS:
            instance = Value(Kind.INSTANCE, node=callee.node)
            initialiser = self.program.attribute(callee.node, "__init__")
            if initialiser.node is not None:
                self._pass(initialiser.node, (instance, *arguments), keywords, node)
            return instance
        if callee.kind in (Kind.FUNCTION, Kind.BOUND):
            given = arguments if callee.kind is Kind.FUNCTION else (NONE, *arguments)  # of self, its class is known
            self._pass(callee.node, given, keywords, node)
            return self.program.result(callee.node)
        return UNKNOWN

    def _pass(
        self,
        function: ast.AST,
        arguments: tuple[Value, ...],
        keywords: Keywords,
        node: ast.Call | None,
    ) -> None:
        """Note what a call passes for each parameter; a call that spreads a sequence hides what goes where."""
        if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            return
        spread = node is not None and any(isinstance(argument, ast.Starred) for argument in node.args)
        if spread or any(name == "**" for name, _ in keywords):
            self.program.now.escaped.add(function)
            return
        names = parameters(function)
        for name, value in (*zip(names, arguments, strict=False), *keywords):
            self.program.merge_argument(function, name, value)

    def _named_attribute(self, node: ast.Call, function: str, arguments: tuple[Value, ...]) -> Value:
        """getattr(x, "name") and its like, which count as the attribute that they name."""
        name = node.args[1] if len(node.args) > 1 else None
        if not (isinstance(name, ast.Constant) and isinstance(name.value, str)):
            self.program.emit(facts.DynamicAttribute(node.lineno, False, function))
            return UNKNOWN
        if function == "hasattr":
            return HOST
        if function != "getattr":
            self.program.emit(facts.AttributeStore(node.lineno, False, arguments[0], name.value))
            return NONE
        result = self.used_attribute(arguments[0], name.value, node.lineno)
        return join(result, arguments[2]) if len(arguments) > 2 else result
