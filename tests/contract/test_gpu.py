"""Which GPU is meant: an index among those that are visible, or a UUID; and which names are a target."""

from __future__ import annotations

import pytest

from d2k_agent.config import TARGETS
from d2k_agent.contract.gpu import are_gpus, gpu_variables, is_gpu, is_target
from d2k_agent.evaluator.compilation.targets import find_target

VISIBLE, ORDER = "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"


@pytest.mark.parametrize("wish", ["0", "15", "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6", "MIG-GPU-89/1/0"])
def test_indices_and_uuids_name_a_gpu(wish: str) -> None:
    assert is_gpu(wish)


@pytest.mark.parametrize("wish", ["", "-1", "0,1", "first", "H200", "GPU-", "GPU-1;rm", "1 ", "\u0661x"])
def test_nothing_else_does(wish: str) -> None:
    assert not is_gpu(wish)


@pytest.mark.parametrize(
    ("wish", "several"), [("0", True), ("0,1", True), ("0,GPU-ab", True), ("0,", False), ("0,x", False)]
)
def test_several_gpus_are_named_with_commas_between(wish: str, several: bool) -> None:
    assert are_gpus(wish) is several


@pytest.mark.parametrize(
    ("wish", "environ", "wanted"),
    [
        ("1", {}, {VISIBLE: "1", ORDER: "PCI_BUS_ID"}),
        ("01", {ORDER: "FASTEST_FIRST"}, {VISIBLE: "1", ORDER: "FASTEST_FIRST"}),
        ("1", {VISIBLE: "4,6"}, {VISIBLE: "6", ORDER: "PCI_BUS_ID"}),
        ("1", {VISIBLE: "4,6", ORDER: "FASTEST_FIRST"}, {VISIBLE: "6", ORDER: "FASTEST_FIRST"}),
        ("0", {VISIBLE: " GPU-ab , 2"}, {VISIBLE: "GPU-ab", ORDER: "PCI_BUS_ID"}),
        (None, {VISIBLE: "4,6"}, {ORDER: "PCI_BUS_ID"}),
        (None, {VISIBLE: "4,6", ORDER: "FASTEST_FIRST"}, {ORDER: "FASTEST_FIRST"}),
        (None, {}, {}),
        ("GPU-ab", {VISIBLE: "4"}, {VISIBLE: "GPU-ab"}),
        ("1,0", {}, {VISIBLE: "1,0", ORDER: "PCI_BUS_ID"}),
        ("0,1", {VISIBLE: "4,6"}, {VISIBLE: "4,6", ORDER: "PCI_BUS_ID"}),
        ("0,0", {VISIBLE: "4,6"}, {VISIBLE: "4", ORDER: "PCI_BUS_ID"}),
        ("GPU-ab,GPU-cd", {}, {VISIBLE: "GPU-ab,GPU-cd"}),
    ],
)
def test_an_index_counts_what_is_visible_and_a_uuid_passes_through(
    wish: str | None, environ: dict[str, str], wanted: dict[str, str]
) -> None:
    assert gpu_variables(wish, environ) == wanted


@pytest.mark.parametrize(("value", "count"), [("4,6", 2), ("", 0), ("4,-1,6", 1), ("NoDevFiles", 0)])
def test_an_index_beyond_what_is_visible_is_told_how_many_are(value: str, count: int) -> None:
    with pytest.raises(ValueError, match=f"leaves {count} visible"):
        gpu_variables("2", {VISIBLE: value})


@pytest.mark.parametrize(
    ("name", "target", "is_one"),
    [
        ("NVIDIA B200", "b200", True),
        ("NVIDIA B200", "B200", True),
        ("NVIDIA B300 SXM6 AC", "b300", True),
        ("NVIDIA H200", "h200", True),
        ("NVIDIA H100 80GB HBM3", "h100", True),
        ("NVIDIA H200", "b200", False),
        ("NVIDIA GB200", "b200", False),
        ("NVIDIA GH200 480GB", "h200", False),
        ("NVIDIA H200 NVL", "h200", False),
        ("NVIDIA H100 PCIe", "h100", False),
        ("NVIDIA H100 NVL", "h100", False),
        ("NVIDIA H100 64GB HBM3", "h100", False),
        ("GRID H100-80C", "h100", False),
        ("NVIDIA B200 MIG 1g.23gb", "b200", False),
        ("NVIDIA B200", "a100", False),
        ("AMD EPYC B200", "b200", False),
        ("B200", "b200", False),
    ],
)
def test_nothing_but_a_b200_is_a_b200(name: str, target: str, is_one: bool) -> None:
    assert is_target(name, target) is is_one


def test_every_target_of_the_command_line_has_a_name_and_it_is_the_compilers() -> None:
    for target in TARGETS:
        assert is_target(find_target(target).product, target), target
