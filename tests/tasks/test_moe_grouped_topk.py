"""moe_grouped_topk: its sources at shapes that no workload has, and what is checked at those that workloads have."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from d2k_agent.catalog import find_task
from d2k_agent.evaluator.task import LoadedTask, derive

SHAPE = ("tokens", "experts", "n_group", "topk_group", "topk", "routed_scaling")
ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.proof
@pytest.mark.parametrize(("name", "order"), [("expert", "first"), ("expert", "last"), ("baseline", "last")])
def test_it_computes_what_the_reference_does(name: str, order: str) -> None:
    source = ROOT / "guidance" / "moe_grouped_topk" / f"{name}.py"
    done = subprocess.run(
        [sys.executable, "-m", "tests.tasks.moe_grouped_topk_probe", str(source), order],
        env=os.environ | {"TRITON_INTERPRET": "1"},
        capture_output=True, text=True, cwd=ROOT, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout)
    assert len(results) >= 9
    assert {shape: found for shape, found in results.items() if not all(found.values())} == {}


@functools.cache
def task() -> LoadedTask:
    return LoadedTask(find_task("moe_grouped_topk").bundle())


@pytest.mark.parametrize("vary", ["ties", "negative_scores", "some_rows_valid", "wide_bias"])
def test_the_contract_is_checked_on_a_gpu_at_every_shape_that_a_kernel_may_be_specialised_for(vary: str) -> None:
    late = [item for item in task().variations if item.get("late") and item["vary"] == vary]
    assert all("cuda" in item["devices"] for item in late)
    shapes = [{name: item["workload"][name] for name in SHAPE} for item in late]
    assert shapes == [{name: workload[name] for name in SHAPE} for workload in task().registered]


def test_no_workload_leaves_room_for_a_byte_a_logit() -> None:
    for workload in task().registered:
        outputs, logits = 8 * workload["tokens"] * workload["topk"], workload["tokens"] * workload["experts"]
        cap = task().memory_cap_bytes(workload)
        assert cap is not None and outputs < cap < outputs + logits, workload["label"]


def answer_to(arguments: list[Any], meant: list[Any]) -> list[str]:
    """Gates that fail where a kernel answers `arguments` as if they were `meant`."""
    told = task().expected(meant)
    checks = task().compare(arguments, told.outputs, told.state, task().expected(arguments))
    return [f"{check.output} {check.gate}" for check in checks if not check.passed]


@pytest.mark.parametrize("label", ["dsv3_decode", "glm45"])
def test_what_holds_for_the_registered_inputs_alone_fails_there(label: str) -> None:
    (workload,) = [item for item in task().registered if item["label"] == label]
    given = task().arguments(workload, derive("a", label))
    for vary in ("some_rows_valid", "ties"):
        arguments = task().vary(vary, given, derive("b", label))
        meant = list(arguments)
        if vary == "ties":  # the higher expert of equal scores
            meant[0] = arguments[0] + 1e-6 * torch.arange(workload["experts"])
        else:
            meant[3] = given[3]
        assert answer_to(arguments, arguments) == []
        assert answer_to(arguments, meant) == ["topk_ids set"], vary
