"""From source text to facts: walks a candidate until nothing new is learned."""

from __future__ import annotations

import ast
import warnings

from d2k_agent.evaluator.rules.program import Program
from d2k_agent.evaluator.rules.statements import walk_module

_MOST_ROUNDS = 12
"""A tensor is followed through this many nested calls; deeper ones stay unknown, which accuses nobody."""


def analyse(source: str) -> Program:
    """The program with the facts of its last round in `before`. Raises SyntaxError for text that does not parse."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what Python thinks of escapes in a candidate's texts
            program = Program(ast.parse(source))
        for _ in range(_MOST_ROUNDS):
            walk_module(program)
            if not program.advance():
                break
    except SyntaxError as problem:
        if problem.lineno is not None:
            raise
        raise _unreadable(problem.msg) from None
    except ValueError as problem:
        raise _unreadable(f"the source cannot be read: {problem}") from None
    except (RecursionError, MemoryError):
        raise _unreadable("the source is nested too deeply: flatten its expressions") from None
    return program


def _unreadable(message: str) -> SyntaxError:
    return SyntaxError(message, ("solution.py", 1, 0, ""))
