"""Which memory of a candidate counts: what it holds in a call, from wherever it has it, and not what tuning takes."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterator

import pytest

pytest.importorskip("torch")

from d2k_agent.contract import JobKind, TaskBundle, VerdictStatus
from d2k_agent.evaluator.devices.inside import asked_bytes
from d2k_agent.launchers import ProcessLauncher
from tests.evaluator.scaling import HONEST, KERNEL, job, task

IMPORTED = """
import torch

if ONLY:
    room = torch.empty(1 << 19, device="cuda" if torch.cuda.is_available() else "cpu")
"""
A_BUFFER_A_CALL = KERNEL + (
    "kept = []\n\n\ndef run(x, factor):\n    kept.append(torch.empty(1 << 16, device=x.device))\n"
    "    return scaled(x, factor)\n"
)
A_BUFFER_A_SHAPE = KERNEL + (
    "kept = {}\n\n\ndef run(x, factor):\n    if x.shape not in kept:\n"
    "        kept[x.shape] = torch.empty(3 << 16, device=x.device)\n    return scaled(x, factor)\n"
)
TUNED = HONEST.replace(
    "@triton.jit",
    "@triton.autotune([triton.Config({}, num_warps=warps) for warps in (1, 2)], key=['n'], restore_value=['y'])\n"
    "@triton.jit",
)


@pytest.mark.parametrize(
    ("requested", "allocated", "blocks", "asked"),
    [
        pytest.param(384, 1024, 2, 384, id="what two small tensors were rounded up to"),
        pytest.param(1 << 20, 1 << 20, 1, 1 << 20, id="nothing rounded"),
        pytest.param(20 << 20, 21 << 20, 1, (21 << 20) - 512, id="a block much larger than what was asked for"),
        pytest.param(None, 1 << 20, 4, (1 << 20) - 2048, id="an allocator that keeps no count of requests"),
    ],
)
def test_on_a_gpu_what_tensors_asked_for_counts(requested: int | None, allocated: int, blocks: int, asked: int) -> None:
    statistics = {"allocated_bytes.all.peak": allocated, "allocation.all.peak": blocks}
    if requested is not None:
        statistics["requested_bytes.all.peak"] = requested
    assert asked_bytes(statistics) == asked


@pytest.fixture(scope="module")
def launcher() -> Iterator[ProcessLauncher]:
    launcher = ProcessLauncher({"PATH": os.environ["PATH"], "HOME": "/tmp"})
    yield launcher
    launcher.close()


def two_shapes() -> TaskBundle:
    config = {"workloads": [{"label": "large", "n": 1 << 20}, {"label": "larger", "n": 1 << 21}]}
    whole = task()
    return dataclasses.replace(whole, public={**whole.public, "config.json": json.dumps(config)})


def test_what_a_tuner_copies_is_not_the_calls(launcher: ProcessLauncher) -> None:
    verdict = launcher.launch(job(TUNED, kind=JobKind.COMPILE))
    assert verdict.status is VerdictStatus.UNTIMED, verdict.message


@pytest.mark.parametrize(
    ("only", "workload", "message"),
    [
        ("True", "large", "large: 6291456 bytes of tensors were alive at once"),
        ("not torch.cuda.is_available()", "smoke_n1000", "smoke_n1000: 2101152 bytes of tensors were alive at once"),
    ],
)
def test_a_buffer_made_at_import_counts_in_every_call(
    launcher: ProcessLauncher, only: str, workload: str, message: str
) -> None:
    verdict = launcher.launch(job(IMPORTED.replace("ONLY", only) + HONEST, workloads=(workload,)))
    assert verdict.status is VerdictStatus.INCORRECT
    assert verdict.message.startswith(message)


def test_a_buffer_that_an_earlier_call_left_counts(launcher: ProcessLauncher) -> None:
    verdict = launcher.launch(job(A_BUFFER_A_CALL, workloads=("smoke_n1000",)))
    assert verdict.message.startswith("smoke_n1000: call 5 of one process: 1314720 bytes of tensors"), verdict.message


def test_a_workspace_for_another_shape_is_not_blamed(launcher: ProcessLauncher) -> None:
    verdict = launcher.launch(job(A_BUFFER_A_SHAPE, task=two_shapes()))
    assert verdict.status is VerdictStatus.UNTIMED, verdict.message
    assert any("hidden.zeros was checked in a fresh process" in note for note in verdict.notes), verdict.notes
    assert [result.label for result in verdict.workloads][:2] == ["large", "larger"]
