"""What a kernel may read of the names around it: what Triton compiles. Interpreted, it would read anything."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from d2k_agent.evaluator.rules.allow_list import TRITON_PREFIXES
from d2k_agent.evaluator.rules.program import Program
from d2k_agent.evaluator.rules.values import FIXED, MUTABLE, UNKNOWN, Kind, Value, external

_NEVER_RUN_BY_A_KERNEL = frozenset(["__init__", "__post_init__", "__repr__", "__str__"])


def is_kernels(program: Program, value: Value) -> bool:
    """True for a kernel, a name of a module, a number, a text, a dtype, and a tuple of those.

    Which names of which modules, other rules say. A list is none: `+=` would fill it.
    """
    if value.kind is Kind.UNKNOWN and value.either:
        return all(is_kernels(program, one) for one in value.either)
    if value.kind in (Kind.HOST, Kind.ITEMS) or value.path == FIXED:
        return value.path != MUTABLE and all(is_kernels(program, item) for item in value.items)
    return value.kind in (Kind.EXTERNAL, Kind.DTYPE, Kind.NONE) or program.is_kernel(value)


def constant(program: Program, value: Value, name: str) -> Value:
    """What a kernel may take `Class.name` for: UNKNOWN where reading or comparing it could run the host's code."""
    if not isinstance(value.node, ast.ClassDef) or name in program.set_attributes:
        return UNKNOWN
    if not _is_plain(value.node, program.classes, set()):
        return UNKNOWN
    return program.attribute(value.node, name)


def makes_plainly(program: Program, value: Value) -> bool:
    """True for a class whose instances a kernel may make: its methods are kernels, its fields only kept."""
    if not isinstance(value.node, ast.ClassDef) or not _is_plain(value.node, program.classes, set()):
        return False
    if any(isinstance(base, ast.Name) and base.id in program.classes for base in value.node.bases):
        return False
    methods = [part for part in value.node.body if isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef))]
    return all(
        program.is_kernel(program.attribute(value.node, part.name))
        or (part.name == "__init__" and all(_only_keeps(program, inner) for inner in ast.walk(part)))
        for part in methods
    )


def _only_keeps(program: Program, node: ast.AST) -> bool:
    """False for a call of anything but `gl.constexpr`, and for what changes an item or anything in place."""
    if isinstance(node, ast.AugAssign) or (isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load)):
        return False
    if not isinstance(node, ast.Call):
        return True
    module = (
        node.func.value.id if isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name) else ""
    )
    path = program.before.module.get(module, UNKNOWN).path
    return path.startswith("triton.") and isinstance(node.func, ast.Attribute) and node.func.attr == "constexpr"


def of_triton(program: Program, path: str, arguments: Sequence[Value]) -> Value | None:
    """What a call on the host of something of Triton's language gives: a constant, a type, a layout; None if unsure."""
    if not any(path.startswith(f"{prefix}.") for prefix in TRITON_PREFIXES) or "()" in path:
        return None
    if path.endswith(".constexpr") and len(arguments) == 1:
        return arguments[0]
    lists_too = all(is_kernels(program, Value(value.kind, items=value.items, node=value.node)) for value in arguments)
    return external(f"{path}()") if lists_too else None


def _is_plain(node: ast.ClassDef, classes: dict[str, list[ast.ClassDef]], seen: set[ast.ClassDef]) -> bool:
    """True for a class without methods that a kernel would run by looking at an instance; `seen` ends a circle."""
    if node in seen:
        return True
    seen.add(node)
    methods = [part for part in node.body if isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef))]
    hidden = any(part.name.startswith("__") and part.name not in _NEVER_RUN_BY_A_KERNEL for part in methods)
    if hidden or node.keywords or any(isinstance(base, ast.Starred) for base in node.bases):
        return False
    bases = [base.id if isinstance(base, ast.Name) else getattr(base, "attr", "") for base in node.bases]
    return all(bases) and all(_is_plain(own, classes, seen) for base in bases for own in classes.get(base, ()))
