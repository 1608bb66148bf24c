"""What the profiler read off the kernels of one call of run(), and what it says about where the time goes."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

SECTIONS = ("memory", "compute", "scheduler", "source")
"""What can be looked into beyond the light set, for the kernels that hold most of the time."""


class Bottleneck(enum.StrEnum):
    """What bounds a kernel or a call."""

    TENSOR = "tensor core"
    DRAM = "DRAM"
    L2 = "L2"
    SHARED = "shared memory or L1"
    PIPE = "instruction pipe"
    TAIL = "tail"
    LATENCY = "latency or occupancy"
    LAUNCH = "launch or host"


@dataclass(frozen=True)
class Evidence:
    """A number that decides: the counter by the profiler's name, or what was derived, in percent.

    `limit` is the rule's: the bottleneck is named from there on (below it where `below`). None: no limit belongs to
    it; it is the largest of several, or told beside what decides.
    """

    counter: str
    percent: float
    limit: float | None = None
    below: bool = False


@dataclass(frozen=True)
class Diagnosis:
    """A bottleneck and what decided it, the deciding evidence first."""

    bottleneck: Bottleneck
    evidence: tuple[Evidence, ...]


@dataclass(frozen=True)
class HotLine:
    """A line of the candidate with its part of the kernel's samples (0 to 1), the most frequent stall, its text.

    What a function costs that a line calls is counted at both lines.
    """

    line: int
    share: float
    stall: str | None = None
    text: str = ""


@dataclass(frozen=True)
class ProfileWish:
    """What a profile shall look into. `call_ms` is a measured latency of the call, `call_mhz` the clock of the
    multiprocessors while that was measured; None: nobody knows it.
    """

    sections: tuple[str, ...] = ()
    call_ms: float | None = None
    call_mhz: float | None = None

    def __post_init__(self) -> None:
        unknown = [name for name in self.sections if name not in SECTIONS]
        if unknown:
            raise ValueError(f"there is no section {unknown[0]!r}; there are {', '.join(SECTIONS)}")


@dataclass(frozen=True)
class KernelProfile:
    """One kernel of the call, all its launches together, or those of one shape where shapes are bounded otherwise
    (`one_shape`). Durations in microseconds, the rest in percent of the peak.

    A value is None where the profiler did not report it. `share` is the part of the call's kernel time, 0 to 1.
    `pipe` is the busiest of the pipes beside the tensor cores, or the issue of instructions itself; `shared_percent` is
    of the pipe that shared memory and the L1 cache have in common. `waves` is the grid
    over the blocks that the GPU holds at once. `counters` are those of the sections that were
    asked for, by the profiler's name: means over the launches looked into (`section_launches`), weighted by their time.
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
    l2_percent: float | None = None
    pipe_percent: float | None = None
    pipe: str | None = None
    waves: float | None = None
    diagnosis: Diagnosis | None = None
    counters: dict[str, float] = field(default_factory=dict)
    hot_lines: tuple[HotLine, ...] = ()
    shared_percent: float | None = None
    section_launches: int | None = None
    one_shape: bool = False

    @property
    def title(self) -> str:
        """The name, with the grid where other launches of that name have a row of their own."""
        return f"{self.name}[{'x'.join(map(str, self.grid))}]" if self.one_shape else self.name


@dataclass(frozen=True)
class Profile:
    """One call of run() on one workload, after warm-up and autotuning, as Nsight Compute saw it.

    The profiler serialises kernels and replays each: durations are a clock of their own and no latency of the policy.
    `call_us` is the latency of the call as it was measured without the profiler, None where nobody knows it. `passes`
    is how often a launch ran for the counters of the light set, None where the profiler did not say.
    """

    workload: str
    tool: str
    kernels: tuple[KernelProfile, ...]
    duration_us: float
    notes: tuple[str, ...] = ()
    sections: tuple[str, ...] = ()
    call_us: float | None = None
    diagnosis: Diagnosis | None = None
    passes: int | None = None
