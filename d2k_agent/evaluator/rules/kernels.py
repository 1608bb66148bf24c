"""Walks functions that Triton compiles: their names are resolved, their arithmetic is theirs."""

from __future__ import annotations

import ast

from d2k_agent.evaluator.rules import facts
from d2k_agent.evaluator.rules.kernel_names import constant, is_kernels, makes_plainly
from d2k_agent.evaluator.rules.program import FunctionNode, Program, comprehension_names, local_names
from d2k_agent.evaluator.rules.scopes import Scope
from d2k_agent.evaluator.rules.values import UNKNOWN, Kind, Value, external


def walk_kernel(program: Program, node: FunctionNode, enclosing: Scope) -> None:
    """Note what a kernel uses. Annotations and defaults belong to the host and are walked there."""
    if not isinstance(node, ast.Lambda):
        program.emit(facts.KernelDefinition(node.lineno, True, node.name))
    local = local_names(node)
    queue: list[tuple[ast.AST, set[str]]] = (
        [(part, local) for part in node.body] if not isinstance(node, ast.Lambda) else []
    )
    while queue:
        part, local = queue.pop()
        program.now.read.add(part)
        if isinstance(part, ast.Attribute) and not isinstance(part.ctx, ast.Load):
            program.emit(facts.AttributeStore(part.lineno, True, UNKNOWN, part.attr))
        if isinstance(part, (ast.Name, ast.Attribute)):
            _resolve(program, part, local, enclosing, node)
        elif isinstance(part, (ast.BinOp, ast.AugAssign)) and isinstance(part.op, ast.MatMult):
            program.emit(facts.Operation(part.lineno, True, "@", tensors=True))
        elif isinstance(part, (ast.Import, ast.ImportFrom)):
            names = [alias.name for alias in part.names]
            module = names[0] if isinstance(part, ast.Import) else part.module or "."
            program.emit(facts.Import(part.lineno, True, module, None, used=True))
        elif isinstance(part, ast.Subscript) and not isinstance(part.ctx, ast.Load):
            program.emit(facts.ItemStore(part.lineno, True, UNKNOWN))
        elif isinstance(part, (ast.Global, ast.Nonlocal)):
            program.emit(facts.HostValue(part.lineno, True, part.names[0]))
        elif isinstance(part, ast.MatchClass):
            for name in part.kwd_attrs:
                program.emit(facts.AttributeUse(part.lineno, True, UNKNOWN, name, name in program.own_names))
        local = local | _names_of(part)
        below = _below_chain(program, part) if isinstance(part, ast.Attribute) else ast.iter_child_nodes(part)
        queue.extend((inner, local) for inner in below)


def _names_of(part: ast.AST) -> set[str]:
    """Names that a function or a comprehension inside a kernel binds for itself."""
    if isinstance(part, (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)):
        return comprehension_names(part)
    return local_names(part) if isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)) else set()


def _below_chain(program: Program, node: ast.Attribute) -> list[ast.AST]:
    """What stands below a chain of attributes, unless it is a plain name, which has been resolved with the chain."""
    inner: ast.expr = node
    while isinstance(inner, ast.Attribute):
        inner = inner.value
        program.now.read.add(inner)
    return [] if isinstance(inner, ast.Name) else [inner]


def _resolve(program: Program, node: ast.Name | ast.Attribute, local: set[str], scope: Scope, kernel: ast.AST) -> None:
    names: list[str] = []
    inner: ast.expr = node
    while isinstance(inner, ast.Attribute):
        names.insert(0, inner.attr)
        inner = inner.value
    value = UNKNOWN
    if isinstance(inner, ast.Name) and inner.id not in local:
        found = program.lookup(scope, inner.id)
        if found is None:
            program.emit(facts.BuiltinUse(node.lineno, True, inner.id, program.defines(inner.id)))
        elif found.node is not None:
            program.now.references[kernel].add(found.node)
        value = Value(Kind.BUILTIN, inner.id) if found is None else found
        if found is not None:
            _judge(program, value, inner.id, names, node.lineno, scope.settled(inner.id))
    if value.kind is Kind.EXTERNAL or (value.either and all(one.kind is Kind.EXTERNAL for one in value.either)):
        names = [name for name in names if name.startswith("_")]
        value = external((value.either or (value,))[0].path)
    for name in names:
        own, host_method = name in program.own_names, name in program.host_methods
        program.emit(facts.AttributeUse(node.lineno, True, value, name, own, host_method))
        value = value if value.kind is Kind.EXTERNAL else UNKNOWN


def _judge(program: Program, value: Value, name: str, attributes: list[str], line: int, in_function: bool) -> None:
    """Note what a kernel reads of a name that is not its own, and whether it is one that kernels may read."""
    if value.kind is Kind.CLASS and not attributes and makes_plainly(program, value):
        return
    if value.kind is Kind.CLASS and attributes:
        value, attributes = constant(program, value, attributes[0]), []
    if value.kind is Kind.FUNCTION and not program.is_kernel(value):
        program.emit(facts.HostFunction(line, True, name))
    elif value.kind is Kind.BUILTIN:
        program.emit(facts.BuiltinUse(line, True, value.path))
    elif not is_kernels(program, value) or (in_function and value.kind is Kind.HOST):
        program.emit(facts.HostValue(line, True, name))
    for one in value.either or (value,):
        if one.kind is Kind.EXTERNAL:
            program.emit(facts.ExternalUse(line, True, ".".join([one.path, *attributes])))
