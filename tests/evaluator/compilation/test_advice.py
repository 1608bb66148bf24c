"""Warnings from what was read of kernels: the worst variant speaks for all, and what is well is not spoken of."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from d2k_agent.contract import KernelReport
from d2k_agent.evaluator.compilation.advice import Reading, kernel_advice
from d2k_agent.evaluator.compilation.inspect_binary import Access, Product
from d2k_agent.evaluator.compilation.targets import TARGETS

KERNEL = KernelReport(
    name="k",
    num_warps=4,
    num_stages=3,
    registers=64,
    spill_store_bytes=0,
    spill_load_bytes=0,
    stack_bytes=0,
    shared_bytes=0,
    tensor_memory_columns=None,
    instructions={},
    grids={"w": ((4096, 1, 1),)},
    launches=1,
    source_line=7,
    num_ctas=1,
    matrix=(),
)
WIDE = Access({16: 8}, ((8192, 2),))
WELL = Reading(KERNEL, (), loops=True, loads=WIDE, stores=WIDE, remarks=())


def advice(*readings: Reading, target: str = "h200") -> list[str]:
    return kernel_advice(readings, TARGETS[target])


def changed(**fields: Any) -> Reading:
    return replace(WELL, kernel=replace(KERNEL, **fields))


def multiplying(operand: str = "bf16", rows: int = 16, columns: int = 64) -> Reading:
    product = Product("mma.sync", rows, columns, 32, operand, tf32=False)
    return replace(changed(instructions={"mma.sync": 4, "cp.async": 2}), products=(product,))


def test_what_is_well_is_not_warned_about() -> None:
    assert advice(WELL) == []


def test_the_worst_variant_speaks_for_all_and_the_others_are_counted() -> None:
    variants = [changed(spill_store_bytes=stored, spill_load_bytes=8) for stored in (8, 44676, 16)]
    (told,) = advice(WELL, *variants)
    assert told.startswith("kernel k (line 7, at w) spills registers: 44676 bytes stored, 8 bytes loaded a thread")
    assert told.endswith("So do 2 more variants of it.")


def test_spills_come_before_idle_multiprocessors() -> None:
    few = changed(grids={"w": ((4096, 1, 1), (2, 3, 1))}, num_ctas=2)
    told = advice(few, replace(changed(spill_store_bytes=8), kernel=replace(KERNEL, name="j", spill_store_bytes=8)))
    assert [line.split()[1] for line in told] == ["j", "k"]
    assert "launches 12 blocks at w: 120 of the 132 multiprocessors of h200 stay idle" in told[1]


@pytest.mark.parametrize(
    ("grids", "warned"),
    [
        ({"w": ((1, 1, 1),), "v": ((1, 1, 1), (0, 1, 1))}, False),
        ({"w": ((1, 1, 1),), "v": ((64, 1, 1),)}, True),
        ({"w": ((1, 1, 1), (4, 1, 1))}, True),
    ],
)
def test_a_kernel_of_one_block_everywhere_is_a_helper_and_not_warned_about(
    grids: dict[str, tuple[tuple[int, int, int], ...]], warned: bool
) -> None:
    """Without a time nobody can tell whether it matters; one that has more blocks elsewhere can be split."""
    assert any("stay idle" in line for line in advice(changed(grids=grids))) is warned


def test_few_blocks_of_a_reduced_workload_are_no_problem() -> None:
    few = changed(grids={"w": ((16, 1, 1),)}, spill_store_bytes=8)
    spilling, idle = kernel_advice([few], TARGETS["b200"])
    assert "132 of the 148 multiprocessors of b200 stay idle" in idle
    assert kernel_advice([few], TARGETS["b200"], registered=False) == [spilling]


def test_a_launch_of_nothing_and_an_unknown_spill_are_no_problem() -> None:
    assert advice(changed(grids={"w": ((0, 1, 1),)}, spill_store_bytes=None, spill_load_bytes=None)) == []


@pytest.mark.parametrize(
    ("operand", "target", "warned"),
    [("bf16", "b200", True), ("i8", "h200", True), ("i8", "b200", False), ("f64", "h200", False)],
)
def test_mma_sync_is_a_problem_where_something_newer_takes_such_operands(
    operand: str, target: str, warned: bool
) -> None:
    assert any("by mma.sync where" in line for line in advice(multiplying(operand), target=target)) is warned


def test_what_keeps_a_product_from_the_newer_instruction_is_named() -> None:
    assert "here are 16 rows. The transposed product has rows enough." in advice(multiplying())[0]
    assert "here are 8 columns." in advice(multiplying(rows=64, columns=8))[0]
    assert "operands that come from memory, not from registers" in advice(multiplying(rows=64))[0]


def test_narrow_loads_of_a_small_tile_do_not_hide_or_accuse_wide_ones() -> None:
    rows = ((32, 4), (32, 4))  # two factors of each of 32 rows, which every thread reads for itself
    beside = replace(WELL, loads=Access({4: 64, 16: 8}, (*rows, (8192, 2))))
    assert advice(beside) == []
    instead = replace(WELL, loads=Access({2: 64, 4: 64}, (*rows, (8192, 2))))
    assert "loads from global memory 2 bytes at a time (64 of 128 accesses in the PTX)" in advice(instead)[0]


def test_one_narrow_store_a_block_is_no_problem() -> None:
    assert advice(replace(WELL, stores=Access({4: 1}, ()))) == []


def test_remarks_of_ptxas_are_passed_on() -> None:
    assert "makes ptxas say: wgmma is serialized." in advice(replace(WELL, remarks=("wgmma is serialized",)))[0]
