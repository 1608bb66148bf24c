"""Muon's expert and baseline compute what the reference says, on smoke and hidden inputs, in Triton's interpreter."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from d2k_agent.catalog import guidance_dir, tasks_dir

pytestmark = pytest.mark.proof

ROOT = Path(__file__).resolve().parents[2]
REL_NORM, ROW_NORM = 0.012, 0.10
IMPLEMENTATIONS = ["expert", "baseline"]


@functools.cache
def probe(name: str, order: str) -> dict[str, Any]:
    script, implementation = ROOT / "tests" / "tasks" / "muon_probe.py", guidance_dir() / "muon" / f"{name}.py"
    done = subprocess.run(
        [sys.executable, str(script), str(tasks_dir().parent), str(implementation), order],
        env={**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def test_the_gates_are_the_published_ones() -> None:
    hidden = json.loads((tasks_dir() / "muon" / "hidden" / "workloads.json").read_text())
    limits = {gate["gate"]: gate["limit"] for gate in hidden["gates"]}
    assert limits == {"rel_norm": REL_NORM, "row_norm": ROW_NORM}
    tolerance = json.loads((tasks_dir() / "muon" / "config.json").read_text())["tolerance"]
    assert (tolerance["rel_norm_rtol"], tolerance["atol"], tolerance["rtol"]) == (0.006, 0.003, 0.01)


@pytest.mark.parametrize("name", IMPLEMENTATIONS)
@pytest.mark.parametrize("group", ["smoke", "variations"])
@pytest.mark.parametrize("order", ["first", "last"])
def test_within_the_gates_in_whatever_order_programs_run(name: str, group: str, order: str) -> None:
    results = probe(name, order)[group]
    assert len(results) >= 2
    for label, result in results.items():
        assert result["finite"], label
        assert result["like_input"], label
        assert result["input_kept"], label
        assert result["rel_norm"] <= REL_NORM, label
        assert result["row_norm"] <= ROW_NORM, label


def test_the_expert_stays_within_three_quarters_of_the_gate_on_smoke_shapes() -> None:
    for label, result in probe("expert", "first")["smoke"].items():
        assert result["rel_norm"] <= 0.75 * REL_NORM, label


@pytest.mark.parametrize("name", IMPLEMENTATIONS)
def test_a_zero_matrix_gives_zeros_and_leaves_its_neighbour_alone(name: str) -> None:
    assert probe(name, "first")["variations"]["hidden.zero_matrix"]["zero_matrices"] == 1
    assert all(result["zero_matrices"] == 0 for result in probe(name, "first")["smoke"].values())


@pytest.mark.parametrize("name", IMPLEMENTATIONS)
@pytest.mark.parametrize("shape", ["tall", "leading_dimensions", "half_a_block"])
@pytest.mark.parametrize("order", ["first", "last"])
def test_any_layout_of_matrices(name: str, shape: str, order: str) -> None:
    result = probe(name, order)["shapes"][shape]
    assert result["like_input"]
    assert result["rel_norm"] <= REL_NORM


@pytest.mark.parametrize("name", IMPLEMENTATIONS)
@pytest.mark.parametrize("case", ["four_steps", "one_dimension"])
def test_what_the_operator_is_not_defined_for_is_refused(name: str, case: str) -> None:
    assert probe(name, "first")["refused"][case]
