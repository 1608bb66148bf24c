"""Which of Python's own names a module has certainly made its own before anything can use them.

A name that is bound in a branch that never runs, deleted again, or bound too late still means what Python means by it.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable

PYTHON_NAMES = frozenset(dir(builtins))

_RUNS_NOTHING = (
    ast.Assign, ast.AnnAssign, ast.Expr, ast.Import, ast.ImportFrom, ast.alias, ast.Name, ast.Constant, ast.Tuple,
    ast.List, ast.Dict, ast.expr_context,
)  # fmt: skip
"""What a statement may consist of that certainly calls none of the candidate's functions."""


def settled_names(tree: ast.Module) -> frozenset[str]:
    """Names that a statement of the module itself binds, before code that mentions them can have run, for good."""
    settled: set[str] = set()
    mentioned: set[str] = set()
    later: set[str] = set()
    """Mentioned in bodies of functions that nothing can have called yet."""
    for statement in tree.body:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)) and not statement.decorator_list:
            mentioned |= _loaded([statement.args, *filter(None, [statement.returns])])
            later |= _loaded(statement.body)
        else:
            if not all(isinstance(part, _RUNS_NOTHING) for part in ast.walk(statement)):
                mentioned |= later
            mentioned |= _loaded([statement])
        settled |= _bound(statement) - mentioned
    return frozenset(settled - _unbound(tree))


def _loaded(nodes: Iterable[ast.AST]) -> set[str]:
    parts = (part for node in nodes for part in ast.walk(node))
    return {part.id for part in parts if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load)}


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
