"""static.no_launch: run() must be able to reach the launch of a Triton kernel.

Kept apart from the other rules: a candidate that computes nothing is first of all incorrect.
"""

from __future__ import annotations

import ast

from d2k_agent.contract import Violation
from d2k_agent.evaluator.rules.analysis import analyse, unreadable
from d2k_agent.evaluator.rules.program import Program
from d2k_agent.evaluator.rules.values import Kind


def missing_launch(source: str) -> tuple[Violation, ...]:
    """One violation where nothing that run() reaches launches a kernel, else none. Raises SyntaxError.

    Only for candidates whose outputs are right. What the launched kernel is good for, only a run can tell.
    """
    try:
        return _missing(analyse(source))
    except SyntaxError:
        raise
    except Exception as problem:  # noqa: BLE001 - as in check_rules: what cannot be followed counts as found
        return (unreadable(problem),)


def _missing(program: Program) -> tuple[Violation, ...]:
    run = program.before.module.get("run")
    line = getattr(run.node, "lineno", None) if run is not None else None
    if not program.before.kernels:
        return (_violation("no @triton.jit function is defined: write the computation as Triton kernels", line),)
    if run is None or run.node is None or run.kind is not Kind.FUNCTION:
        return ()
    if any(node in program.before.launching for node in _reachable(program, run.node, _decorated(program.tree))):
        return ()
    return (_violation("nothing that run() calls launches a kernel: launch one with kernel[grid](...)", line),)


def _decorated(tree: ast.Module) -> dict[ast.AST, list[ast.AST]]:
    """What each function of the source may come to because it decorates it, as may all that are defined in it."""
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    found: dict[ast.AST, list[ast.AST]] = {}
    for function in functions:
        names = {node.id for mark in function.decorator_list for node in ast.walk(mark) if isinstance(node, ast.Name)}
        for decorator in functions:
            if decorator.name in names:
                for inner in ast.walk(decorator):
                    found.setdefault(inner, []).append(function)
    return found


def _reachable(program: Program, start: ast.AST, decorated: dict[ast.AST, list[ast.AST]]) -> set[ast.AST]:
    """Every function that the code of `start` may come to; a method of unknown owner counts by its name."""
    seen: set[ast.AST] = set()
    queue = [start]
    while queue:
        node = queue.pop()
        if node in seen:
            continue
        seen.add(node)
        queue.extend((*program.before.references.get(node, ()), *decorated.get(node, ())))
        for name in program.before.named_calls.get(node, ()):
            queue.extend(program.methods.get(name, ()))
    return seen


def _violation(message: str, line: int | None) -> Violation:
    return Violation("static.no_launch", message, line)
