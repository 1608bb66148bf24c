"""The table of static rules, and their application to a source."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from d2k_agent.contract import Violation
from d2k_agent.evaluator.rules import external_names, imports, language, monkeypatch, reflection, tensor_math
from d2k_agent.evaluator.rules.analysis import analyse, unread, unreadable
from d2k_agent.evaluator.rules.encoding import foreign_encoding
from d2k_agent.evaluator.rules.facts import Fact
from d2k_agent.evaluator.rules.policy import Policy, policy_of


@dataclass(frozen=True)
class Rule:
    """One rule: the checks that it reports under, and the function from facts to violations."""

    checks: tuple[str, ...]
    find: Callable[[list[Fact], Policy], Iterator[Violation]]


RULES = (
    Rule(("static.imports",), imports.forbidden_imports),
    Rule(
        (
            "static.torch_names",
            "static.streams",
            "static.generated_kernels",
            "static.internals",
            "static.module_names",
            "static.kernel_names",
        ),
        external_names.forbidden_names,
    ),
    Rule(("static.borrowed_names",), external_names.borrowed_names),
    Rule(
        ("static.reflection", "static.files", "static.undefined", "static.kernel_names"), reflection.forbidden_builtins
    ),
    Rule(("static.reflection",), reflection.dynamic_attributes),
    Rule(("static.reflection",), reflection.special_attributes),
    Rule(("static.reflection",), reflection.texts_that_read),
    Rule(("static.reflection", "static.special_methods"), reflection.special_names),
    Rule(("static.monkeypatch", "static.kernel_names"), monkeypatch.foreign_stores),
    Rule(("static.subclassing",), monkeypatch.foreign_bases),
    Rule(("static.tensor_math",), tensor_math.operators),
    Rule(("static.tensor_math",), tensor_math.computing_calls),
    Rule(("static.casts",), tensor_math.casts),
    Rule(
        ("static.tensor_methods", "static.attributes", "static.kernel_use", "static.kernel_names"),
        tensor_math.attributes,
    ),
    Rule(("static.kernel_use", "static.kernel_names"), tensor_math.kernel_calls),
)


def check_rules(source: str, rules: Mapping[str, Any]) -> tuple[Violation, ...]:
    """Every violation in a candidate's source, by line. `rules` is a task's parsed rules.toml.

    A source that the analysis fails on has one violation, `static.unreadable`.
    Raises SyntaxError for text that does not parse, ValueError for rules that make no sense, OSError where the
    installed Triton cannot be asked for its names.
    """
    policy = policy_of(rules)
    language.names()  # a Triton that cannot be asked is no fault of the candidate's
    foreign = foreign_encoding(source)
    if foreign:
        return foreign
    try:
        program = analyse(source)
        found = {violation for rule in RULES for violation in rule.find(program.before.facts, policy)}
        found.update(unread(program))
    except SyntaxError:
        raise
    except Exception as problem:  # noqa: BLE001 - hostile text: whatever it makes fail, it must not get past
        return (unreadable(problem),)
    return tuple(sorted(found, key=lambda violation: (violation.line or 0, violation.check, violation.message)))
