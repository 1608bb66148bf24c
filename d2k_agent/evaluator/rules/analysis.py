"""From source text to facts: walks a candidate until nothing new is learned."""

from __future__ import annotations

import ast
import functools
import warnings
from collections.abc import Iterator

from d2k_agent.contract import Violation
from d2k_agent.evaluator.rules.program import Program
from d2k_agent.evaluator.rules.statements import walk_module

_MOST_ROUNDS = 12
"""A tensor is followed through this many nested calls; deeper ones stay unknown, which accuses nobody."""


def parse(source: str) -> ast.Module:
    """The tree of a source. Raises SyntaxError, with a line, for text that Python does not parse."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what Python thinks of escapes in a candidate's texts
            return ast.parse(source)
    except SyntaxError as problem:
        if problem.lineno is not None:
            raise
        raise _unreadable(problem.msg) from None
    except ValueError as problem:
        raise _unreadable(f"the source cannot be read: {problem}") from None
    except (RecursionError, MemoryError):
        raise _unreadable("the source is nested too deeply: flatten its expressions") from None


@functools.lru_cache(maxsize=1)
def analyse(source: str) -> Program:
    """The program with the facts of its last round in `before`, to read only: the next question is of the same source.

    Raises SyntaxError; a hostile source can make it raise anything.
    """
    program = Program(parse(source))
    for _ in range(_MOST_ROUNDS):
        walk_module(program)
        if not program.advance():
            break
    return program


def unread(program: Program) -> Iterator[Violation]:
    """Code that no walker saw, and that no rule has judged therefore: syntax that the analysis does not know."""
    for node in ast.walk(program.tree):
        if isinstance(node, (ast.stmt, ast.expr, ast.pattern)) and node not in program.before.read:
            message = f"this {type(node).__name__} is not followed by the rules: write it with plainer statements"
            yield Violation("static.unread", message, node.lineno)


def unreadable(problem: Exception) -> Violation:
    """What a source gets on which the analysis itself fails: it has not been judged, so it must not run."""
    message = f"the source cannot be followed ({type(problem).__name__}): write it more plainly"
    return Violation("static.unreadable", message, 1)


def _unreadable(message: str) -> SyntaxError:
    return SyntaxError(message, ("solution.py", 1, 0, ""))
