"""From source text to facts: walks a candidate until nothing new is learned."""

from __future__ import annotations

import ast

from d2k_agent.evaluator.rules.program import Program
from d2k_agent.evaluator.rules.statements import walk_module

_MOST_ROUNDS = 12
"""A tensor is followed through this many nested calls; deeper ones stay unknown, which accuses nobody."""


def analyse(source: str) -> Program:
    """The program with the facts of its last round in `before`. Raises SyntaxError for text that does not parse."""
    try:
        program = Program(ast.parse(source))
    except ValueError as problem:
        raise SyntaxError(f"the source cannot be read: {problem}") from None
    except RecursionError:
        raise SyntaxError("the source is nested too deeply: flatten its expressions") from None
    for _ in range(_MOST_ROUNDS):
        walk_module(program)
        if not program.advance():
            break
    return program
