"""static.imports: only modules that glue needs."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from d2k_agent.contract import Violation
from d2k_agent.evaluator.rules.facts import Fact, Import
from d2k_agent.evaluator.rules.policy import Policy

_HARMLESS_UNUSED = (sys.stdlib_module_names - {"antigravity", "this", "idlelib", "turtledemo", "site"}) | {"numpy"}
"""Importing these does nothing by itself; a name that is imported and never mentioned is no violation."""


def forbidden_imports(facts: list[Fact], policy: Policy) -> Iterator[Violation]:
    """Imports of modules, and star imports, outside the allow-list."""
    for fact in facts:
        if not isinstance(fact, Import):
            continue
        if fact.in_kernel:
            yield _violation(f"{fact.module} is imported inside a kernel: import it at the top", fact.line)
        elif fact.module.startswith("."):
            yield _violation("a relative import: solution.py is one file and imports none of its neighbours", fact.line)
        elif fact.name == "*":
            message = f"from {fact.module} import * hides where names come from: import the names that are used"
            yield _violation(message, fact.line)
        elif not _allowed(fact, policy):
            message = (
                f"{fact.module} may not be imported: torch, triton and plain helpers (math, functools ...) suffice"
            )
            yield _violation(message, fact.line)


def _allowed(fact: Import, policy: Policy) -> bool:
    if policy.imports(fact.module):
        return True
    if fact.name is not None and policy.imports(f"{fact.module}.{fact.name}"):
        return True
    return not fact.used and fact.module.partition(".")[0] in _HARMLESS_UNUSED


def _violation(message: str, line: int) -> Violation:
    return Violation("static.imports", message, line)
