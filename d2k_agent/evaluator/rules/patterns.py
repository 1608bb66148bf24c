"""Walks patterns of match statements: the attributes that they read, the expressions in them, the names they bind."""

from __future__ import annotations

import ast

from d2k_agent.evaluator.rules import facts
from d2k_agent.evaluator.rules.targets import Targets
from d2k_agent.evaluator.rules.values import UNKNOWN, Kind, Value, element, many

_WHOLE = frozenset("bool bytearray bytes dict float frozenset int list set str tuple".split())
"""Built-in classes whose one positional pattern stands for the object itself."""


class Evaluator(Targets):
    """Expressions with calls, with names that expressions bind, and with patterns."""

    def match(self, pattern: ast.pattern, subject: Value) -> None:
        """Walk a pattern that `subject` is matched with."""
        self.program.now.read.add(pattern)
        if isinstance(pattern, ast.MatchValue):
            self.value(pattern.value)
        elif isinstance(pattern, (ast.MatchSequence, ast.MatchOr)):
            for part in pattern.patterns:
                self.match(part, subject if isinstance(pattern, ast.MatchOr) else element(subject))
        elif isinstance(pattern, ast.MatchStar):
            self._capture(pattern.name, many([subject]), pattern.lineno)
        elif isinstance(pattern, ast.MatchAs):
            if pattern.pattern is not None:
                self.match(pattern.pattern, subject)
            self._capture(pattern.name, subject, pattern.lineno)
        elif isinstance(pattern, ast.MatchMapping):
            for key, part in zip(pattern.keys, pattern.patterns, strict=True):
                self.value(key)
                self.match(part, element(subject))
            self._capture(pattern.rest, UNKNOWN, pattern.lineno)
        elif isinstance(pattern, ast.MatchClass):
            self._match_class(pattern, subject)

    def _match_class(self, pattern: ast.MatchClass, subject: Value) -> None:
        matched = self.value(pattern.cls)
        whole = matched.kind is Kind.BUILTIN and matched.path in _WHOLE
        if pattern.patterns and not whole:
            self.program.emit(facts.PositionalPattern(pattern.lineno, False))
        for part in pattern.patterns:
            self.match(part, subject if whole else UNKNOWN)
        for name, part in zip(pattern.kwd_attrs, pattern.kwd_patterns, strict=True):
            self.match(part, self.used_attribute(subject, name, pattern.lineno))

    def _capture(self, name: str | None, value: Value, line: int) -> None:
        if name is not None:
            self.bind(name, value, line)
