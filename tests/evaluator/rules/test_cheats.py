"""Every file in tests/cheats against the static rules: what its first line says must be found, and nothing else."""

from __future__ import annotations

import pytest

from d2k_agent.contract import VerdictStatus
from d2k_agent.evaluator.rules import RULES, check_rules, missing_launch
from tests.evaluator.corpus import CORPUS, Cheat


@pytest.mark.parametrize("cheat", [cheat for cheat in CORPUS if cheat.static], ids=lambda cheat: cheat.name)
def test_a_cheat_is_found_by_its_rule(cheat: Cheat) -> None:
    violations = check_rules(cheat.source, {})
    assert set(cheat.shipped.checks) <= {violation.check for violation in violations}
    assert cheat.shipped.statuses == ("rule_violation",)
    lines = cheat.source.count("\n") + 1
    assert all(violation.line is not None and 1 <= violation.line <= lines for violation in violations)


@pytest.mark.parametrize("cheat", [cheat for cheat in CORPUS if not cheat.static], ids=lambda cheat: cheat.name)
def test_what_is_no_static_violation_is_not_called_one(cheat: Cheat) -> None:
    assert check_rules(cheat.source, {}) == ()


@pytest.mark.parametrize(
    "cheat", [cheat for cheat in CORPUS if cheat.shipped.statuses == ("passed",)], ids=lambda cheat: cheat.name
)
def test_an_honest_kernel_launches_one(cheat: Cheat) -> None:
    assert missing_launch(cheat.source) == ()


@pytest.mark.parametrize(
    "cheat", [cheat for cheat in CORPUS if "static.no_launch" in cheat.shipped.checks], ids=lambda cheat: cheat.name
)
def test_a_result_without_a_launch_is_found(cheat: Cheat) -> None:
    assert [violation.check for violation in missing_launch(cheat.source)] == ["static.no_launch"]


def test_first_lines_name_statuses_and_rules_that_exist() -> None:
    statuses = {status.value for status in VerdictStatus}
    checks = {check for rule in RULES for check in rule.checks} | {"static.encoding", "static.no_launch"}
    for cheat in CORPUS:
        assert set(cheat.shipped.statuses) <= statuses, cheat.name
        assert {check for check in cheat.shipped.checks if check.startswith("static.")} <= checks, cheat.name
        assert cheat.unruled is None or set(cheat.unruled.statuses) <= statuses, cheat.name


def test_honest_files_expect_the_same_with_the_rules_and_without() -> None:
    honest = [cheat for cheat in CORPUS if cheat.name.startswith("H")]
    assert {(cheat.shipped, cheat.unruled) for cheat in honest} == {(honest[0].shipped, honest[0].shipped)}
    assert honest[0].shipped.statuses == ("passed",)


def test_every_rule_has_a_cheat_that_it_finds() -> None:
    found = {violation.check for cheat in CORPUS if cheat.static for violation in check_rules(cheat.source, {})}
    declared = {check for rule in RULES for check in rule.checks}
    assert declared <= found
    assert found <= declared | {"static.encoding"}


def test_the_corpus_is_large_enough_to_mean_something() -> None:
    assert sum(cheat.name.startswith("V") for cheat in CORPUS) >= 20
    assert sum(cheat.name.startswith("H") for cheat in CORPUS) >= 13
