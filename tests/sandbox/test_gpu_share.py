"""Which GPUs a command sees, and so which leases it takes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from d2k_agent.app.launching import gpus_of_tools
from d2k_agent.app.surroundings import Surroundings
from d2k_agent.config import RunConfig
from d2k_agent.sandbox import GpuShare, Isolation, Sandbox
from d2k_agent.sandbox.gpu_share import visible_uuids

MACHINE = ("GPU-aa", "GPU-bb", "GPU-cc")


@pytest.mark.parametrize(
    ("visible", "leased"),
    [
        (None, list(MACHINE)),
        ("1", ["GPU-bb"]),
        ("2,GPU-a", ["GPU-cc", "GPU-aa"]),
        ("", []),
        ("7", list(MACHINE)),
        ("MIG-1", list(MACHINE)),
    ],
)
def test_a_command_leases_what_it_sees_and_in_doubt_everything(visible: str | None, leased: list[str]) -> None:
    shown = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    assert visible_uuids(MACHINE, {**shown, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}) == leased


@pytest.mark.parametrize("order", [{}, {"CUDA_DEVICE_ORDER": "FASTEST_FIRST"}])
def test_an_index_that_counts_otherwise_than_nvidia_smi_does_is_no_gpu_that_can_be_told(order: dict[str, str]) -> None:
    assert visible_uuids(MACHINE, {"CUDA_VISIBLE_DEVICES": "1", **order}) == list(MACHINE)
    assert visible_uuids(MACHINE, {"CUDA_VISIBLE_DEVICES": "GPU-bb", **order}) == ["GPU-bb"]


def test_the_tools_see_the_evaluators_gpu_where_that_is_here() -> None:
    around = Surroundings(Path("/"), {"CUDA_VISIBLE_DEVICES": "4,6", "PATH": "/bin"}, Path("/"), sys.executable)

    def seen(**config: str) -> dict[str, str]:
        return dict(gpus_of_tools(around, RunConfig(task="t", model="m", **config), lambda _: None).variables)  # type: ignore[arg-type]

    order = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    assert seen() == {"CUDA_VISIBLE_DEVICES": "4,6", **order}
    assert seen(gpu="1") == {"CUDA_VISIBLE_DEVICES": "6", **order}
    assert seen(gpu="1", evaluator="ssh host") == {"CUDA_VISIBLE_DEVICES": "4,6", **order}, "1 counts on that machine"


def test_only_a_command_that_asks_for_the_gpu_is_told_which(tmp_path: Path) -> None:
    box = Sandbox(Isolation("none"), tmp_path, gpus=GpuShare({"CUDA_VISIBLE_DEVICES": "6"}), unsafe_no_sandbox=True)
    shown = {
        gpu: box.run(["/bin/sh", "-c", "echo $CUDA_VISIBLE_DEVICES"], limit_s=30, output_bytes=100, gpu=gpu).stdout
        for gpu in (True, False)
    }
    assert [shown[gpu].head.strip() for gpu in (True, False)] == [b"6", b""]
