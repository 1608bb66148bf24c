"""How many blocks of a kernel fit on one multiprocessor at once, from its resources alone: an estimate, nothing ran.

The numbers are NVIDIA's for compute capability 9.0, 10.0 and 10.3, which agree: the table of technical specifications
in the CUDA programming guide, and cuda_occupancy.h for how resources are handed out. Does not cover: clusters, and what
a grid really fills.
"""

from __future__ import annotations

from d2k_agent.contract.compilation import Occupancy
from d2k_agent.evaluator.compilation.targets import TENSOR_MEMORY_COLUMNS

WARP_SIZE = 32
WARPS = 64
BLOCKS = 32
BARRIERS = 64
REGISTERS = 65536
SHARED_BYTES = 228 << 10
"""Of one multiprocessor, as are the four above."""
PARTITIONS = 4
"""A multiprocessor has four parts with a quarter of the registers each; a warp stays in one of them."""
REGISTER_UNIT = 256
"""A warp gets registers in multiples of this many."""
SHARED_UNIT_BYTES = 128
RESERVED_SHARED_BYTES = 1 << 10
"""What the driver takes of shared memory for each block."""


def occupancy(
    *,
    num_warps: int,
    registers: int | None,
    shared_bytes: int,
    barriers: int | None = None,
    tensor_memory_columns: int | None = None,
) -> Occupancy | None:
    """The estimate for blocks of `num_warps` warps with `registers` a thread; None where registers are unknown.

    A resource that the kernel does not use limits nothing and is left out. Blocks that wait for tensor memory count as
    not there: a Triton kernel takes it all when it begins.
    """
    if registers is None:
        return None
    limits = {
        "registers": _by_registers(num_warps, registers),
        "shared memory": SHARED_BYTES // _round_up(shared_bytes + RESERVED_SHARED_BYTES, SHARED_UNIT_BYTES),
        "warps": WARPS // num_warps,
        "blocks": BLOCKS,
    }
    if barriers:
        limits["barriers"] = BARRIERS // barriers
    if tensor_memory_columns:
        limits["tensor memory"] = TENSOR_MEMORY_COLUMNS // tensor_memory_columns
    blocks = min(limits.values())
    return Occupancy(blocks, blocks * num_warps, WARPS, limits)


def _by_registers(num_warps: int, registers: int) -> int:
    """Blocks that the register file holds. A launch is checked as if a block had warps in all partitions alike."""
    per_warp = _round_up(max(1, registers) * WARP_SIZE, REGISTER_UNIT)
    if per_warp * _round_up(num_warps, PARTITIONS) > REGISTERS:
        return 0
    return REGISTERS // PARTITIONS // per_warp * PARTITIONS // num_warps


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
