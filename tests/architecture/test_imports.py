"""Who may import whom. The layers themselves are contracts in pyproject.toml; this runs them and adds what they
cannot say: that a package uses the standard library only."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.source import ROOT, modules

STANDARD_LIBRARY_ONLY = ("d2k_agent.contract", "d2k_agent.isolation")
EVALUATOR_MAY_IMPORT = ("torch", "triton", "numpy", "d2k_agent.contract", "d2k_agent.isolation", "d2k_agent.evaluator")
# What `evaluate`, `compile`, `profile` and `tasks` go through on a machine that has Python, torch and triton only.
BARE_MACHINE = ("contract", "isolation", "evaluator", "errors", "config", "catalog", "launchers")


def is_within(name: str, packages: tuple[str, ...]) -> bool:
    return any(name == package or name.startswith(f"{package}.") for package in packages)


def is_standard_library(name: str) -> bool:
    return name.partition(".")[0] in sys.stdlib_module_names


def test_the_contracts_of_pyproject_hold() -> None:
    linter = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([linter, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("package", STANDARD_LIBRARY_ONLY)
def test_it_imports_the_standard_library_only(package: str) -> None:
    foreign = {
        f"{module.path} imports {name}"
        for module in modules(package.replace(".", "/"))
        for name in module.imports()
        if not is_standard_library(name) and not is_within(name, (package,))
    }
    assert not foreign


def test_the_evaluator_imports_what_a_gpu_machine_has() -> None:
    foreign = {
        f"{module.path} imports {name}"
        for module in modules("d2k_agent/evaluator")
        for name in module.imports()
        if not is_standard_library(name) and not is_within(name, EVALUATOR_MAY_IMPORT)
    }
    assert not foreign


def test_what_runs_on_a_bare_machine_imports_no_library_of_ours() -> None:
    packages = tuple(f"d2k_agent.{name}" for name in BARE_MACHINE)
    foreign = {
        f"{module.path} imports {name}"
        for module in modules()
        if is_within(module.name, packages)
        for name in module.imports()
        if not is_standard_library(name) and not is_within(name, ("d2k_agent", "torch", "triton", "numpy"))
    }
    assert not foreign
