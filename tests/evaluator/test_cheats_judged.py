"""Cheats that the static rules leave to the run, and honest kernels, through the evaluator's real processes.

On a CPU and at the smallest smoke workload: what needs a GPU, a long run or the registered shapes is not asked here.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from d2k_agent.catalog import find_task
from d2k_agent.contract import EvaluatorJob, JobKind, Limits, VerdictStatus
from d2k_agent.launchers import ProcessLauncher

FOLDER = Path(__file__).parent.parent / "cheats"
SMOKE = "smoke_b1_m32_n80"
NEEDS_MORE = {
    "A10e": "only the late variation separates it",
    "A11b": "its kernel spins on a GPU",
    "A11c": "it takes GPU memory",
}


def expectation(path: Path) -> tuple[list[str], str]:
    _, _, statuses, check = path.read_text(encoding="utf-8").splitlines()[0].split()
    return statuses.split("|"), check


def judged() -> list[Path]:
    chosen = []
    for path in sorted(FOLDER.glob("[AH]*.py")):
        statuses, check = expectation(path)
        if path.name[:4] not in NEEDS_MORE and not check.startswith("static.") and "rule_violation" not in statuses:
            chosen.append(path)
    return chosen


@pytest.fixture(scope="module")
def launcher() -> Iterator[ProcessLauncher]:
    launcher = ProcessLauncher({"PATH": os.environ["PATH"], "HOME": "/tmp"})
    yield launcher
    launcher.close()


@pytest.mark.parametrize("path", judged(), ids=lambda path: path.stem)
def test_it_ends_as_its_first_line_says(launcher: ProcessLauncher, path: Path) -> None:
    statuses, check = expectation(path)
    job = EvaluatorJob(
        JobKind.EVALUATE,
        find_task("muon").bundle(),
        path.read_text(encoding="utf-8"),
        secrets.token_hex(32),
        "b200",
        workloads=(SMOKE,),
        limits=Limits(call_s=120.0),
    )
    verdict = launcher.launch(job)
    if "passed" in statuses:
        assert verdict.status is VerdictStatus.UNTIMED, verdict.message
        return
    assert verdict.status.value in statuses, verdict.message
    assert check in {item.gate for result in verdict.workloads for item in result.checks if not item.passed}
