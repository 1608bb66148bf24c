"""What the compiler said about every kernel that a candidate launches, on a machine that need not have the GPU."""

from __future__ import annotations

from dataclasses import dataclass, field

MOST_KERNELS = 200
"""Variants that a report tells of: where it has so many, there may be more."""


@dataclass(frozen=True)
class Occupancy:
    """An estimate: how many blocks of a kernel one multiprocessor holds at once, from its resources alone.

    `limits` has the blocks that each resource allows, by its name; the least of them is `blocks`. Nothing ran, and what
    a grid really fills is another matter. Clusters are not taken into account.
    """

    blocks: int
    warps: int
    most_warps: int
    limits: dict[str, int]

    @property
    def limiters(self) -> tuple[str, ...]:
        """The resources that allow no further block."""
        return tuple(name for name, blocks in self.limits.items() if blocks == self.blocks)


@dataclass(frozen=True)
class KernelReport:
    """One compiled kernel variant. Bytes are bytes, `grids` the distinct launch grids seen at each workload.

    `launches` are those of the first call of run() at each workload; a kernel that only a later one launches has grids.
    A count is None when the tool that reads it was not available or failed; it is never 0 for "unknown". Fields with
    None as their default are unknown in records from before they were read.
    """

    name: str
    num_warps: int
    num_stages: int
    registers: int | None
    spill_store_bytes: int | None
    spill_load_bytes: int | None
    stack_bytes: int | None
    shared_bytes: int
    tensor_memory_columns: int | None
    instructions: dict[str, int]
    """PTX counts by kind: mma.sync, wgmma, tcgen05.mma, tma_load, tma_store, cp.async ..."""
    constexprs: dict[str, str] = field(default_factory=dict)
    grids: dict[str, tuple[tuple[int, ...], ...]] = field(default_factory=dict)
    launches: int = 0
    source_line: int | None = None
    num_ctas: int | None = None
    """Blocks of a cluster: a grid's size times this is the number of blocks."""
    matrix: tuple[str, ...] | None = None
    """What multiplies matrices here: tcgen05.mma, wgmma, mma.sync, or FMA where no tensor core does; () for nothing."""
    global_loads: dict[str, int] | None = None
    """PTX loads from global memory by the bytes that one moves for a thread, cp.async included and TMA not."""
    global_stores: dict[str, int] | None = None
    occupancy: Occupancy | None = None


@dataclass(frozen=True)
class CompileReport:
    """The compiler's view of `run()` at the registered shapes, for one target.

    `error` is the first failure in words for the author (None when everything compiled and fits the target), and
    `error_kind` says which: "compile" (a kernel does not compile), "launch" (it compiles, and needs more than the
    target has; "compile" in older records), "run" (the host code raised), "exit" (it left the process), "time" (the
    limit);
    `not_compiled` counts autotuner configurations left out (decision: the first eight, within a minute).
    `peak_bytes` are the most bytes of tensors that the host code held at once beyond the inputs, by workload.
    `multiprocessors` and `shared_limit_bytes` (of one block) are the target's; None in records from before they were
    told.
    """

    target: str
    architecture: str
    triton_version: str
    kernels: tuple[KernelReport, ...]
    workloads: tuple[str, ...]
    error: str | None = None
    error_kind: str | None = None
    not_compiled: int = 0
    warnings: tuple[str, ...] = ()
    seconds: float = 0.0
    peak_bytes: dict[str, int] = field(default_factory=dict)
    multiprocessors: int | None = None
    shared_limit_bytes: int | None = None
