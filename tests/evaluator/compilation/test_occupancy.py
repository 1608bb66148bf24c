"""The occupancy estimate against numbers of NVIDIA's own calculator (cuda_occupancy.h), worked out for 9.0 and 10.0."""

from __future__ import annotations

from typing import Any

import pytest

from d2k_agent.evaluator.compilation.occupancy import occupancy


@pytest.mark.parametrize(
    ("resources", "blocks", "limiters"),
    [
        ({"num_warps": 4, "registers": 32}, 16, ("registers", "warps")),
        ({"num_warps": 4, "registers": 33}, 12, ("registers",)),  # 40 are given, to each warp of 32 threads
        ({"num_warps": 1, "registers": 16}, 32, ("blocks",)),
        ({"num_warps": 8, "registers": 128}, 2, ("registers",)),
        ({"num_warps": 8, "registers": 129}, 1, ("registers",)),
        ({"num_warps": 3, "registers": 168}, 4, ("registers",)),  # 12 warps, three in each of four parts
        ({"num_warps": 4, "registers": 32, "shared_bytes": 232448}, 1, ("shared memory",)),
        ({"num_warps": 4, "registers": 32, "shared_bytes": 115712}, 2, ("shared memory",)),
        ({"num_warps": 4, "registers": 32, "shared_bytes": 115713}, 1, ("shared memory",)),  # 1 KiB a block is taken
        ({"num_warps": 4, "registers": 32, "barriers": 8}, 8, ("barriers",)),
        ({"num_warps": 4, "registers": 32, "tensor_memory_columns": 256}, 2, ("tensor memory",)),
    ],
)
def test_blocks_and_what_limits_them(resources: dict[str, Any], blocks: int, limiters: tuple[str, ...]) -> None:
    found = occupancy(**{"shared_bytes": 0, **resources})
    assert found is not None
    assert (found.blocks, found.limiters) == (blocks, limiters)
    assert (found.warps, found.most_warps) == (blocks * resources["num_warps"], 64)


def test_a_block_whose_registers_do_not_fit_in_four_parts_alike_is_none() -> None:
    assert occupancy(num_warps=9, registers=224, shared_bytes=0).blocks == 0


def test_without_registers_nothing_is_estimated_and_what_is_not_used_limits_nothing() -> None:
    assert occupancy(num_warps=4, registers=None, shared_bytes=0) is None
    found = occupancy(num_warps=4, registers=32, shared_bytes=0, barriers=None, tensor_memory_columns=0)
    assert set(found.limits) == {"registers", "shared memory", "warps", "blocks"}
