"""What bounds a kernel, and a call: a table of rules over counters, and the evidence that decided.

A kernel, the first rule that holds:

| bottleneck | holds where |
|---|---|
| tensor core, DRAM, L2, shared memory, instruction pipe | the busiest is at 60 % of its peak or more |
| none is named | what tensor cores, DRAM, L2 or shared memory do is unknown, or only the SM as a whole is at 60 % |
| tail | SMs lack a warp for a quarter of the time or more, unevenly, though there is a block for each |
| latency or occupancy | what is left: warps wait and too few are there to hide it, or SMs have no block |

Below 60 % Nsight Compute's own speed-of-light rule begins to speak of latency, too. Idle SMs are counted, since a
launch does not tell them: blocks take unequal time, and several on an SM need not slow each other. Where also the
busiest SM is idle, it is the begin and the end of a short kernel, and no tail.

A call: `launch or host`, where its measured latency is known and kernels fill less than three quarters of it; else what
bounds the largest part of the kernels' time. The profiler lets the GPU rest between kernels, so they run at a higher
clock than in the call: what fills the call is their cycles at the call's own clock where that is known, and what is
missing must be half of the call where it is not. Less than that is not told, and never how much a profiler adds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from d2k_agent.contract.profile import Bottleneck, Diagnosis, Evidence, KernelProfile
from d2k_agent.evaluator.profiling import metrics

BUSY_PERCENT = 60.0
IDLE_PERCENT = 25.0
GAP_PERCENT = 25.0
GAP_OF_UNKNOWN_CLOCK_PERCENT = 50.0
"""At its power limit an H200 computes at two thirds of the clock that it has when it rested."""

IDLE = f"SMs without a warp (1 - {metrics.SM_ACTIVE} / {metrics.SM_ELAPSED})"
LOOKED_AT = "busiest unit that was looked at: "
GAP = "part of the call's latency without a kernel"


@dataclass(frozen=True)
class Unit:
    """A unit's busy part of the kernel in percent (None: not known), by which counter."""

    bottleneck: Bottleneck
    counter: str
    percent: float | None


@dataclass(frozen=True)
class Spread:
    """How a kernel's work is spread over the multiprocessors; None where it is not known.

    `idle_percent` of the time one has no warp, in the mean over all; `uneven_percent` of the busiest one's time do the
    others lack a warp, in the mean. `blocks` are those of the grid, `waves` the grid over what the GPU holds at once.
    """

    idle_percent: float | None = None
    uneven_percent: float | None = None
    blocks: int | None = None
    multiprocessors: int | None = None
    waves: float | None = None

    @property
    def without_block_percent(self) -> float:
        """Of the multiprocessors, those that get no block; 0 where that is not known."""
        if self.blocks is None or not self.multiprocessors:
            return 0.0
        return 100 * max(0.0, 1 - self.blocks / self.multiprocessors)

    @property
    def too_few_blocks(self) -> bool | None:
        """Whether some multiprocessor gets no block at all."""
        if self.blocks is not None and self.multiprocessors is not None:
            return self.blocks < self.multiprocessors
        return False if self.waves is not None and self.waves >= 1 else None


def kernel_diagnosis(
    units: Sequence[Unit], sm_percent: float | None, spread: Spread, occupancy_percent: float | None
) -> Diagnosis | None:
    """What bounds a kernel; None where its counters do not tell. `sm_percent` is the throughput of the whole SM."""
    known = [(unit.percent, unit) for unit in units if unit.percent is not None]
    if not known:
        return None
    percent, busiest = max(known, key=lambda item: item[0])
    if percent >= BUSY_PERCENT:
        return Diagnosis(busiest.bottleneck, (Evidence(busiest.counter, percent, BUSY_PERCENT),))
    unknown = {unit.bottleneck for unit in units if unit.percent is None}
    if unknown - {Bottleneck.PIPE} or (sm_percent is not None and sm_percent >= BUSY_PERCENT):
        return None
    looked_at = "" if len(known) == len(units) else LOOKED_AT
    below = Evidence(looked_at + busiest.counter, percent, BUSY_PERCENT, below=True)
    idle = _idle(spread)
    if idle and spread.too_few_blocks is False and _is_uneven(spread):
        return Diagnosis(Bottleneck.TAIL, (*idle, below))
    occupancy = [] if occupancy_percent is None else [Evidence(metrics.OCCUPANCY, occupancy_percent)]
    return Diagnosis(Bottleneck.LATENCY, (*idle, below, *occupancy))


def _idle(spread: Spread) -> list[Evidence]:
    """That multiprocessors are idle, with the launch's reason for it where it has one; nothing where few are."""
    if spread.idle_percent is None or spread.idle_percent < IDLE_PERCENT:
        return []
    why = ""
    if spread.without_block_percent >= spread.idle_percent / 2:
        why = f"{spread.blocks} blocks for {spread.multiprocessors} SMs: "
    elif spread.uneven_percent is not None and not _is_uneven(spread):
        why = "all alike, a short kernel's begin and end: "
    return [Evidence(why + IDLE, spread.idle_percent, IDLE_PERCENT)]


def _is_uneven(spread: Spread) -> bool:
    return spread.uneven_percent is not None and spread.uneven_percent >= IDLE_PERCENT


def call_diagnosis(
    kernels: Sequence[KernelProfile], filled_us: float, call_us: float | None, same_clock: bool = False
) -> Diagnosis | None:
    """What bounds a call of these kernels; None where most of their time is undecided.

    They fill `filled_us` of the call, at the call's own clock where `same_clock`.
    """
    limit = GAP_PERCENT if same_clock else GAP_OF_UNKNOWN_CLOCK_PERCENT
    gap = 0.0 if call_us is None else 100 * (1 - filled_us / call_us)
    if gap >= limit:
        return Diagnosis(Bottleneck.LAUNCH, (Evidence(GAP, gap, limit),))
    shares: dict[Bottleneck | None, float] = {}
    for kernel in kernels:
        bottleneck = kernel.diagnosis.bottleneck if kernel.diagnosis else None
        shares[bottleneck] = shares.get(bottleneck, 0.0) + kernel.share
    largest = max(shares, key=shares.__getitem__, default=None)
    if largest is None:
        return None
    part = Evidence(f"kernels bounded by {largest}, part of the kernels' time", 100 * shares[largest])
    return Diagnosis(largest, (part,))
