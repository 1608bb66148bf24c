"""Every file in tests/cheats against the static rules: what its first line says must be found, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from d2k_agent.contract import VerdictStatus
from d2k_agent.evaluator.rules import RULES, check_rules, missing_launch

CHEATS = Path(__file__).parents[2] / "cheats"


@dataclass(frozen=True)
class Cheat:
    """One file: its source, and the statuses and the check that its first line expects."""

    name: str
    source: str
    statuses: tuple[str, ...]
    check: str

    @property
    def static(self) -> bool:
        return self.check.startswith("static.") and self.check != "static.no_launch"


def read(path: Path) -> Cheat:
    source = path.read_text(encoding="utf-8")
    marker, statuses, check = source.partition("\n")[0].removeprefix("# ").split()
    assert marker == "expect:", f"{path.name}: the first line says what to expect"
    return Cheat(path.stem, source, tuple(statuses.split("|")), check)


FILES = [read(path) for path in sorted(CHEATS.glob("*.py"))]


@pytest.mark.parametrize("cheat", [cheat for cheat in FILES if cheat.static], ids=lambda cheat: cheat.name)
def test_a_cheat_is_found_by_its_rule(cheat: Cheat) -> None:
    violations = check_rules(cheat.source, {})
    assert cheat.check in {violation.check for violation in violations}
    assert cheat.statuses == ("rule_violation",)
    lines = cheat.source.count("\n") + 1
    assert all(violation.line is not None and 1 <= violation.line <= lines for violation in violations)


@pytest.mark.parametrize("cheat", [cheat for cheat in FILES if not cheat.static], ids=lambda cheat: cheat.name)
def test_what_is_no_static_violation_is_not_called_one(cheat: Cheat) -> None:
    assert check_rules(cheat.source, {}) == ()


@pytest.mark.parametrize(
    "cheat", [cheat for cheat in FILES if cheat.statuses == ("passed",)], ids=lambda cheat: cheat.name
)
def test_an_honest_kernel_launches_one(cheat: Cheat) -> None:
    assert missing_launch(cheat.source) == ()


@pytest.mark.parametrize("cheat", [cheat for cheat in FILES if cheat.check == "static.no_launch"], ids=lambda c: c.name)
def test_a_result_without_a_launch_is_found(cheat: Cheat) -> None:
    assert [violation.check for violation in missing_launch(cheat.source)] == ["static.no_launch"]


def test_first_lines_name_statuses_and_rules_that_exist() -> None:
    statuses = {status.value for status in VerdictStatus}
    checks = {check for rule in RULES for check in rule.checks} | {"static.encoding", "static.no_launch"}
    for cheat in FILES:
        assert set(cheat.statuses) <= statuses, cheat.name
        assert not cheat.check.startswith("static.") or cheat.check in checks, cheat.name


def test_every_rule_has_a_cheat_that_it_finds() -> None:
    found = {violation.check for cheat in FILES if cheat.static for violation in check_rules(cheat.source, {})}
    declared = {check for rule in RULES for check in rule.checks}
    assert declared <= found
    assert found <= declared | {"static.encoding"}


def test_the_corpus_is_large_enough_to_mean_something() -> None:
    assert sum(cheat.name.startswith("V") for cheat in FILES) >= 20
    assert sum(cheat.name.startswith("H") for cheat in FILES) >= 13
