"""One driver process a test file compiles all that its tests look at (its JOBS): torch is imported once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from d2k_agent.contract import CompileReport, KernelReport
from d2k_agent.contract.wire import from_data

HERE = Path(__file__).parent
ROOT = HERE.parents[2]


@dataclass(frozen=True)
class Answer:
    """A report, what it cost in wall-clock seconds and the most memory its process held."""

    report: CompileReport
    seconds: float
    peak_bytes: int

    def kernel(self, name: str, **constexprs: str) -> KernelReport:
        """The one launched kernel of that name whose constexprs include those given."""
        found = [
            kernel
            for kernel in self.report.kernels
            if kernel.name == name and kernel.launches and constexprs.items() <= kernel.constexprs.items()
        ]
        assert len(found) == 1, [kernel.name for kernel in self.report.kernels]
        return found[0]


def job(case: str, target: str, *shapes: list[list[int]], **more: Any) -> dict[str, Any]:
    """A compile job for a file of cases/; each of `shapes` is a workload (w0, w1, ...): the shapes of its arguments."""
    workloads = [{"label": f"w{index}", "shapes": list(shape)} for index, shape in enumerate(shapes)]
    return {"path": str(HERE / "cases" / f"{case}.py"), "target": target, "workloads": workloads, **more}


SQUARE = [[8192, 8192]]
PAIR = [[8192, 8192], [8192, 8192]]
PRODUCTION = [[32, 4096, 11008]]


def drive(jobs: dict[str, Any]) -> dict[str, Any]:
    """What driver.py prints for `jobs`."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("TRITON")}
    done = subprocess.run(
        [sys.executable, str(HERE / "driver.py")],
        input=json.dumps(jobs),
        env={**inherited, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    answers: dict[str, Any] = json.loads(done.stdout)
    return answers


@pytest.fixture(scope="module")
def told(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The raw answer to every job of the test file, by name."""
    return drive(request.module.JOBS)


@pytest.fixture(scope="module")
def answers(told: dict[str, Any]) -> dict[str, Answer]:
    """The answers that hold a report."""
    return {
        name: Answer(from_data(CompileReport, answer["report"]), answer["seconds"], answer["peak_bytes"])
        for name, answer in told.items()
        if "report" in answer
    }
