"""GPUs of tests: lanes that are given different ones judge on different ones."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.evaluator.gpus import evaluator_environment

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    ("given", "gpus", "seen"),
    [
        ({}, 1, "0"),
        ({}, 2, "0,1"),
        ({"CUDA_VISIBLE_DEVICES": "3"}, 1, "3"),
        ({"CUDA_VISIBLE_DEVICES": "2,3"}, 1, "2"),
        ({"CUDA_VISIBLE_DEVICES": "2,3", "PYTEST_XDIST_WORKER": "gw1"}, 1, "3"),
        ({"CUDA_VISIBLE_DEVICES": "2,3", "PYTEST_XDIST_WORKER": "gw2"}, 1, "2"),
        ({"CUDA_VISIBLE_DEVICES": "2,3", "PYTEST_XDIST_WORKER": "gw1"}, 2, "3,2"),
        ({"PYTEST_XDIST_WORKER": "gw1"}, 1, "0"),
        ({"CUDA_VISIBLE_DEVICES": ""}, 1, ""),
    ],
)
def test_an_evaluator_sees_the_gpus_of_its_lane(given: dict[str, str], gpus: int, seen: str) -> None:
    found = evaluator_environment(gpus, {"PATH": "/bin", "A_KEY": "k", "CUDA_HOME": "/cuda", **given})
    assert found == {"PATH": "/bin", "HOME": "/tmp", "CUDA_HOME": "/cuda", "CUDA_VISIBLE_DEVICES": seen}


@pytest.mark.parametrize(
    "path", [*sorted((ROOT / "gpu").glob("test_cuda_*.py")), ROOT / "evaluator" / "test_cheats_judged.py"], ids=str
)
def test_no_test_on_a_gpu_starts_an_evaluator_with_other_ones(path: Path) -> None:
    calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    started = [node.args[0] for node in calls if ast.unparse(node.func) == "ProcessLauncher"]
    assert started
    assert {ast.unparse(node.func) for node in started if isinstance(node, ast.Call)} == {"evaluator_environment"}
    assert all(isinstance(node, ast.Call) for node in started)
