"""One driver process compiles everything that the tests of this folder look at: torch is imported once."""

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


def muon(target: str) -> dict[str, Any]:
    """The baseline of Muon at its registered workloads."""
    get_inputs = (ROOT / "tasks/muon/get_inputs.py").read_text()
    workloads = json.loads((ROOT / "tasks/muon/config.json").read_text())["workloads"]
    return {
        "path": str(ROOT / "guidance/muon/baseline.py"),
        "target": target,
        "workloads": [{"label": params["label"], "params": params, "get_inputs": get_inputs} for params in workloads],
    }


SQUARE = [[8192, 8192]]
PAIR = [[8192, 8192], [8192, 8192]]
PRODUCTION = [[32, 4096, 11008]]

JOBS = {
    "pointers h200": job("pointer_product", "h200", PAIR, [[4096, 512], [512, 1024]]),
    "pointers b200": job("pointer_product", "b200", PAIR),
    "descriptors h200": job("descriptor_product", "h200", PAIR),
    "descriptors b200": job("descriptor_product", "b200", PAIR),
    "gluon": job("gluon_copy", "b300", SQUARE),
    "spilling": job("spilling", "h100", SQUARE),
    "shared memory": job("D09a_out_of_resources", "b200", PRODUCTION),
    "no such name": job("D09b_compile_error", "b200", PRODUCTION),
    "autotuned": job("autotuned", "h200", SQUARE, [[64, 64]]),
    "reads values": job("reads_values", "h200", PRODUCTION, smoke=[{"label": "smoke.small", "shapes": [[32, 80]]}]),
    "asks for registers": job("asks_for_registers", "h200", SQUARE),
    "unknown instruction": job("unknown_instruction", "h200", SQUARE),
    "crashing compiler": job("crashes_the_compiler", "b200", SQUARE),
    "grid too tall": job("grid_too_tall", "h200", SQUARE),
    "wrong host code": job("wrong_host_code", "h200", [[32, 32]], SQUARE),
    "never returns": job("never_returns", "h200", SQUARE, limit_s=2.0),
    "leaves": job("leaves", "h200", SQUARE),
    "no time for kernels": job("D09a_out_of_resources", "h200", PRODUCTION, limit_s=1.0),
    "unknown target": job("gluon_copy", "b9", SQUARE),
    "muon": muon("b200"),
}


def drive(jobs: dict[str, Any], **environment: str) -> dict[str, Any]:
    """What driver.py prints for `jobs`."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("TRITON")}
    done = subprocess.run(
        [sys.executable, str(HERE / "driver.py")],
        input=json.dumps(jobs),
        env={**inherited, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    answers: dict[str, Any] = json.loads(done.stdout)
    return answers


@pytest.fixture(scope="session")
def told() -> dict[str, Any]:
    """The raw answer to every job, by name."""
    return drive(JOBS)


@pytest.fixture(scope="session")
def answers(told: dict[str, Any]) -> dict[str, Answer]:
    """The answers that hold a report."""
    return {
        name: Answer(from_data(CompileReport, answer["report"]), answer["seconds"], answer["peak_bytes"])
        for name, answer in told.items()
        if "report" in answer
    }
