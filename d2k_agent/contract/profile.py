"""What the profiler read off the kernels of one call of run()."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class KernelProfile:
    """One kernel of the call, all its launches together. Durations in microseconds, the rest in percent of the peak.

    A value is None where the profiler did not report it. `share` is the part of the call's kernel time, 0 to 1.
    """

    name: str
    launches: int
    duration_us: float
    share: float
    grid: tuple[int, ...]
    block: tuple[int, ...]
    registers: int | None = None
    sm_percent: float | None = None
    tensor_percent: float | None = None
    dram_percent: float | None = None
    l2_hit_percent: float | None = None
    occupancy_percent: float | None = None
    occupancy_limiter: str | None = None
    main_stall: str | None = None
    main_stall_percent: float | None = None


@dataclass(frozen=True)
class Profile:
    """One call of run() on one workload, after warm-up and autotuning, as Nsight Compute saw it.

    The profiler serialises kernels and replays each: durations are a clock of their own and no latency of the policy.
    """

    workload: str
    tool: str
    kernels: tuple[KernelProfile, ...]
    duration_us: float
    notes: tuple[str, ...] = ()
