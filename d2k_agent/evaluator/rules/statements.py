"""Walks statements of host code in order; branches are walked apart and joined, functions and classes as defined."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import replace

from d2k_agent.evaluator.rules import facts
from d2k_agent.evaluator.rules.allow_list import CLASS_DECORATORS, COPIES_NAMES
from d2k_agent.evaluator.rules.kernels import walk_kernel
from d2k_agent.evaluator.rules.patterns import Evaluator
from d2k_agent.evaluator.rules.program import FunctionNode, Program, local_names
from d2k_agent.evaluator.rules.run_inputs import run_input
from d2k_agent.evaluator.rules.scopes import Scope
from d2k_agent.evaluator.rules.values import UNKNOWN, UNSURE, Kind, Value, element, external

_Pending = list[tuple[FunctionNode, Scope | None]]
"""Functions to walk, with the enclosing scope; None is the module's."""


def walk_module(program: Program) -> None:
    """One round: the module's statements, then the bodies of its functions with the module's final names."""
    scope = Scope(fallback=program.module_names(program.before))
    pending: _Pending = []
    _Statements(program, scope, None, pending).block(program.tree.body)
    program.now.module = scope.values
    names = Scope(program.module_names(program.now, stores=program.before.stores))
    walked: set[FunctionNode] = set()
    while pending:
        node, enclosing = pending.pop()
        if node not in walked:
            walked.add(node)
            _walk_function(program, node, enclosing or names, pending)


def _walk_function(program: Program, node: FunctionNode, enclosing: Scope, pending: _Pending) -> None:
    if node in program.before.kernels and not isinstance(node, ast.Lambda):
        walk_kernel(program, node, enclosing)
        return
    scope = Scope(local=local_names(node), parent=enclosing)
    walker = _Statements(program, scope, node, pending)
    arguments = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
    for argument in arguments:
        annotated = walker.expressions.annotation(argument.annotation)
        known = annotated if annotated.kind is not Kind.UNKNOWN else program.argument(node, argument.arg)
        if argument is arguments[0] and node in program.before.unbound and known.kind is Kind.INSTANCE:
            known = replace(known, path=UNSURE)
        scope.bind(argument.arg, run_input(program.tree, node, argument.arg, known))
    if isinstance(node, ast.Lambda):
        program.merge_result(node, walker.expressions.value(node.body))
    else:
        walker.block(node.body)


class _Statements:
    """Walks the statements of one function, class body or module."""

    def __init__(self, program: Program, scope: Scope, owner: FunctionNode | None, pending: _Pending) -> None:
        self.program, self.owner, self._pending = program, owner, pending
        self.expressions = Evaluator(program, scope, owner, self._defer)
        self._class: ast.ClassDef | None = None
        self._loops = 0

    @property
    def scope(self) -> Scope:
        """The scope in which the next statement is walked."""
        return self.expressions.scope

    def block(self, body: Sequence[ast.stmt]) -> None:
        """Walk statements one after the other."""
        for statement in body:
            self.program.now.read.add(statement)
            method = getattr(self, f"_{type(statement).__name__.lower()}", None)
            if method is not None:
                method(statement)
            else:
                self._children(statement)

    def _children(self, statement: ast.stmt) -> None:
        for child in ast.iter_child_nodes(statement):
            if isinstance(child, ast.expr):
                self.expressions.value(child)

    def _defer(self, node: FunctionNode, scope: Scope) -> None:
        # The names of a class body are not seen by the functions in it.
        enclosing = scope.parent if self._class is not None and scope.parent is not None else scope
        self._pending.append((node, enclosing.branch() if enclosing.parent is not None else None))

    def _import(self, node: ast.Import) -> None:
        for alias in node.names:
            bound = alias.asname or alias.name.partition(".")[0]
            self._note_import(node.lineno, alias.name, None, bound)
            path = alias.name if alias.asname else bound
            self.expressions.bind(bound, external(path), node.lineno)

    def _importfrom(self, node: ast.ImportFrom) -> None:
        module = "." * node.level + (node.module or "")
        for alias in node.names:
            bound = alias.asname or alias.name
            self._note_import(node.lineno, module, alias.name, bound)
            path = f"{module}.{alias.name}"
            self.expressions.bind(bound, external(path), node.lineno)

    def _note_import(self, line: int, module: str, name: str | None, bound: str) -> None:
        self.program.emit(facts.Import(line, False, module, name, bound in self.program.mentioned))

    def _assign(self, node: ast.Assign) -> None:
        if isinstance(node.value, (ast.Name, ast.Attribute)):
            value = self.expressions.named(node.value, aliased=True)
        else:
            value = self.expressions.value(node.value)
        for target in node.targets:
            self.expressions.assign(target, value)

    def _annassign(self, node: ast.AnnAssign) -> None:
        annotated = self.expressions.annotation(node.annotation)
        value = self.expressions.value(node.value) if node.value is not None else annotated
        self.expressions.assign(node.target, value)

    def _augassign(self, node: ast.AugAssign) -> None:
        right = self.expressions.value(node.value)
        current = ast.copy_location(_as_load(node.target), node.target)
        left = self.expressions.value(current)
        result = self.expressions.operation(node.op, left, right, node.lineno)
        self.expressions.assign(node.target, result)

    def _delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            self.expressions.assign(target, UNKNOWN)

    def _return(self, node: ast.Return) -> None:
        value = self.expressions.value(node.value)
        if self.owner is not None:
            self.program.merge_result(self.owner, value)

    def _global(self, node: ast.Global) -> None:
        if self.owner is not None or self._class is not None:
            self.scope.foreign.update(node.names)

    def _if(self, node: ast.If) -> None:
        if self.owner is None and not self.program.renames_itself and _is_main_guard(node.test):
            # The evaluator imports the file as a module: what stands under this test never runs there.
            for never_run in (node.test, *node.body):
                self.program.now.read.update(ast.walk(never_run))
            self.block(node.orelse)
            return
        self.expressions.value(node.test)
        self._branches(node.body, node.orelse)

    def _branches(self, *bodies: Sequence[ast.stmt]) -> None:
        start, ends = self.scope, []
        for body in bodies:
            self.expressions.scope = start.branch()
            self.block(body)
            ends.append(self.scope)
        self.expressions.scope = start
        start.merge(*ends)

    def _for(self, node: ast.For | ast.AsyncFor) -> None:
        each = element(self.expressions.value(node.iter))
        for _ in self._passes():
            start = self.scope.branch()
            self.expressions.assign(node.target, each)
            self.block(node.body)
            self.scope.merge(start, self.scope.branch())
        self.block(node.orelse)

    _asyncfor = _for

    def _passes(self) -> Iterator[None]:
        """A loop is walked twice, so that values from its end meet its start; loops inside it come along."""
        self._loops += 1
        for _ in range(2 if self._loops == 1 else 1):
            yield
        self._loops -= 1

    def _while(self, node: ast.While) -> None:
        for _ in self._passes():
            self.expressions.value(node.test)
            start = self.scope.branch()
            self.block(node.body)
            self.scope.merge(start, self.scope.branch())
        self.block(node.orelse)

    def _try(self, node: ast.Try) -> None:
        start = self.scope.branch()
        self.block(node.body)
        self.block(node.orelse)
        ended = self.scope.branch()
        branches = [ended]
        for handler in node.handlers:
            self.expressions.scope.values = join_scopes(start, ended)
            self.expressions.value(handler.type)
            if handler.name:
                self.expressions.bind(handler.name, UNKNOWN, handler.lineno)
            self.block(handler.body)
            branches.append(self.scope.branch())
        self.scope.merge(*branches)
        self.block(node.finalbody)

    _trystar = _try

    def _with(self, node: ast.With | ast.AsyncWith) -> None:
        for item in node.items:
            value = self.expressions.value(item.context_expr)
            if item.optional_vars is not None:
                self.expressions.assign(item.optional_vars, value if value.kind is Kind.HOST else UNKNOWN)
        self.block(node.body)

    _asyncwith = _with

    def _match(self, node: ast.Match) -> None:
        subject = self.expressions.value(node.subject)
        start, ends = self.scope, [self.scope.branch()]
        for case in node.cases:
            self.expressions.scope = start.branch()
            self.expressions.match(case.pattern, subject)
            self.expressions.value(case.guard)
            self.block(case.body)
            ends.append(self.scope)
        self.expressions.scope = start
        start.merge(*ends)

    def _functiondef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self.expressions.function_defaults(node)
        spread = [argument for argument in (node.args.vararg, node.args.kwarg) if argument is not None]
        for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs, *spread):
            self.expressions.annotation(argument.annotation)
        self.expressions.annotation(node.returns)
        value = Value(Kind.FUNCTION, node=node)
        for decorator in reversed(node.decorator_list):
            if self._copies_names(decorator):
                continue
            wrapper = self.expressions.value(decorator)
            self.program.emit(facts.Call(decorator.lineno, False, wrapper, (value,), ()))
            value = self.expressions.apply(wrapper, (value,), (), None)
            if value.kind in (Kind.UNKNOWN, Kind.EXTERNAL):
                self.program.now.escaped.add(node)
        if self.owner is not None:
            self.program.now.references[self.owner].add(node)
        if node.name.startswith("__"):
            self.program.emit(facts.SpecialName(node.lineno, False, node.name, in_class=self._class is not None))
        if self._class is not None:
            self.program.merge_attribute(self._class, node.name, value)
            if value.path != "staticmethod" and node.args.args:
                kind = Kind.CLASS if value.path == "classmethod" or node.name == "__new__" else Kind.INSTANCE
                self.program.merge_argument(node, node.args.args[0].arg, Value(kind, node=self._class))
        self.scope.bind(node.name, value)
        self._defer(node, self.scope)

    _asyncfunctiondef = _functiondef

    def _copies_names(self, decorator: ast.expr) -> bool:
        """True for `@functools.wraps(function)`, which leaves the function below it what it is."""
        if not isinstance(decorator, ast.Call) or len(decorator.args) != 1 or decorator.keywords:
            return False
        (function,) = decorator.args
        if isinstance(function, ast.Starred) or self.expressions.holder(decorator.func).path != COPIES_NAMES:
            return False
        self.program.now.read.add(decorator)
        self.expressions.value(function)
        return True

    def _base(self, node: ast.expr) -> str:
        """What a class derives from: a full name, "" where it is the candidate's own.

        A generic type counts as what it is of, a call as what is called.
        """
        value = self.expressions.value(node)
        if value.kind not in (Kind.CLASS, Kind.HOST, Kind.NONE) and isinstance(node, (ast.Call, ast.Subscript)):
            of = node.func if isinstance(node, ast.Call) else node.value
            value = self.expressions.load(of.id, of.lineno) if isinstance(of, ast.Name) else self.expressions.holder(of)
        if value.kind in (Kind.EXTERNAL, Kind.BUILTIN):
            return value.path.removesuffix("()")
        return "" if value.kind in (Kind.CLASS, Kind.HOST, Kind.NONE) else "what nobody can follow"

    def _decorates_a_class(self, decorator: ast.expr) -> bool:
        """True for `@dataclass` and its like, with brackets or without."""
        call = decorator if isinstance(decorator, ast.Call) else None
        path = self.expressions.holder(decorator if call is None else call.func).path
        if path not in CLASS_DECORATORS or (call is not None and call.args):
            return False
        self.program.emit(facts.ExternalUse(decorator.lineno, False, path, decorates=True))
        self.program.now.read.add(decorator)
        for keyword in call.keywords if call is not None else ():
            self.expressions.value(keyword.value)
        return True

    def _classdef(self, node: ast.ClassDef) -> None:
        bases = [self._base(base) for base in [*node.bases, *(keyword.value for keyword in node.keywords)]]
        self.program.emit(facts.ClassDefinition(node.lineno, False, node.name, tuple(filter(None, bases))))
        for decorator in node.decorator_list:
            if not self._decorates_a_class(decorator):
                self.expressions.value(decorator)
        inner = _Statements(self.program, Scope(parent=self.scope), self.owner, self._pending)
        inner._class = node
        inner.expressions.in_class = True
        inner.block(node.body)
        for name, value in inner.scope.values.items():
            if name.startswith("__"):
                self.program.emit(facts.SpecialName(node.lineno, False, name, in_class=True))
            self.program.merge_attribute(node, name, value)
        self.program.now.references[node].update(part for part in node.body if isinstance(part, ast.FunctionDef))
        self.expressions.bind(node.name, Value(Kind.CLASS, node=node), node.lineno)


def join_scopes(*scopes: Scope) -> dict[str, Value]:
    """The values that names may have after any of several scopes."""
    merged = Scope()
    merged.merge(*scopes)
    return merged.values


def _as_load(target: ast.expr) -> ast.expr:
    if isinstance(target, ast.Name):
        return ast.Name(target.id, ast.Load())
    if isinstance(target, ast.Attribute):
        return ast.Attribute(target.value, target.attr, ast.Load())
    assert isinstance(target, ast.Subscript)
    return ast.Subscript(target.value, target.slice, ast.Load())


def _is_main_guard(test: ast.expr) -> bool:
    return ast.dump(test) == ast.dump(ast.parse('__name__ == "__main__"', mode="eval").body)
