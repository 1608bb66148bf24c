"""Which of Python's own names a module has certainly made its own before anything can use them.

A name that is bound in a branch that never runs, deleted again, or bound too late still means what Python means by it.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable

PYTHON_NAMES = frozenset(dir(builtins))

_RUNS_NOTHING = (
    ast.Assign, ast.Expr, ast.Pass, ast.Name, ast.Constant, ast.Tuple, ast.List, ast.Dict, ast.expr_context,
)  # fmt: skip
"""What a statement may consist of that calls none of the candidate's functions. Unpacking and hashing may call one."""
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def settled_names(tree: ast.Module) -> frozenset[str]:
    """Names that a statement of the module itself binds, before code that mentions them can have run, for good."""
    settled: set[str] = set()
    mentioned: set[str] = set()
    later: set[str] = set()
    """Mentioned in bodies of functions that nothing can have called yet."""
    taken = {name for node in ast.walk(tree) if isinstance(node, ast.Global) for name in node.names}
    """Names that may hold something: binding one anew ends what it held, and what ends may run code."""
    modules = _modules(tree)
    any_time = _may_run_at_any_time(tree)
    for statement in tree.body:
        bound = _bound(statement)
        if any_time or bound & taken or not _runs_nothing(statement, modules):
            mentioned |= later
        if isinstance(statement, _DEFINITIONS) and not statement.decorator_list:
            mentioned |= _loaded(_signature(statement))
            later |= _loaded(statement.body)
        else:
            mentioned |= _loaded([statement])
        settled |= bound - mentioned
        taken |= bound | (set() if isinstance(statement, _DEFINITIONS) else _stored(statement))
    return frozenset(settled - _unbound(tree))


def _runs_nothing(statement: ast.stmt, modules: set[str]) -> bool:
    """True where a statement certainly calls none of the candidate's functions, if the names it binds are new."""
    if isinstance(statement, _DEFINITIONS):
        return not statement.decorator_list and all(
            isinstance(part, (ast.arguments, ast.arg, *_RUNS_NOTHING)) or _of_a_module(part, modules)
            for node in _signature(statement)
            for part in ast.walk(node)
        )
    return all(
        isinstance(part, _RUNS_NOTHING)
        and not (isinstance(part, (ast.Tuple, ast.List)) and isinstance(part.ctx, ast.Store))
        and not (isinstance(part, ast.Dict) and not all(isinstance(key, ast.Constant) for key in part.keys))
        for part in ast.walk(statement)
    )


def _signature(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.AST]:
    """What is evaluated where the function is defined."""
    returns = [function.returns] if function.returns is not None else []
    return [function.args, *returns, *getattr(function, "type_params", [])]


def _modules(tree: ast.Module) -> set[str]:
    """Names that imports bind and that nothing else does."""
    imports = [statement for statement in tree.body if isinstance(statement, (ast.Import, ast.ImportFrom))]
    others = {part.id for part in ast.walk(tree) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}
    others |= {part.name for part in ast.walk(tree) if isinstance(part, (*_DEFINITIONS, ast.ClassDef))}
    return {name for statement in imports for name in _bound(statement)} - others


def _of_a_module(node: ast.AST, modules: set[str]) -> bool:
    """True for torch.Tensor and its like: no class of the candidate answers for the attribute."""
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules


def _may_run_at_any_time(tree: ast.Module) -> bool:
    """True where garbage collection may run the candidate's code.

    A generator that is suspended runs on when it is collected, and a class that no class statement makes may have
    __del__.
    """
    return any(
        isinstance(node, (ast.Yield, ast.YieldFrom, ast.Await))
        or (isinstance(node, ast.Name) and node.id == "type")
        or (isinstance(node, ast.Import) and any(alias.name == "enum" for alias in node.names))
        or (isinstance(node, ast.ImportFrom) and node.module == "enum")
        for node in ast.walk(tree)
    )


def _loaded(nodes: Iterable[ast.AST]) -> set[str]:
    parts = [part for node in nodes for part in ast.walk(node)]
    found = {part.id for part in parts if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load)}
    return found | {
        part.target.id for part in parts if isinstance(part, ast.AugAssign) and isinstance(part.target, ast.Name)
    }


def _stored(statement: ast.stmt) -> set[str]:
    """At least the names that a statement binds: every name and text in it."""
    fields = (value for node in ast.walk(statement) for _, value in ast.iter_fields(node))
    return {item for value in fields for item in (value if isinstance(value, list) else [value]) if type(item) is str}


def _bound(statement: ast.stmt) -> set[str]:
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return {statement.name}
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        return {(alias.asname or alias.name).partition(".")[0] for alias in statement.names}
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    if isinstance(statement, ast.AnnAssign) and statement.value is not None:
        targets = [statement.target]
    names = [item for target in targets for item in (target.elts if isinstance(target, ast.Tuple) else [target])]
    return {name.id for name in names if isinstance(name, ast.Name)}


def _unbound(tree: ast.Module) -> set[str]:
    """Names that are deleted somewhere: by del, and by the end of an except clause."""
    return {
        (node.id if isinstance(node, ast.Name) else node.name) or ""
        for node in ast.walk(tree)
        if isinstance(node, ast.ExceptHandler) or (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Del))
    }
