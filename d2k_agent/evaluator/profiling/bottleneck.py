"""What bounds a kernel, and a call: a table of rules over counters, and the evidence that decided.

A kernel, the first rule that holds:

| bottleneck | holds where |
|---|---|
| tensor core, DRAM, L2, instruction pipe | the busiest of these is at 60 % of its peak or more, over the whole kernel |
| none is named | only the SM as a whole is known to be at 60 % or more, and not which of its units |
| tail | none is, and a quarter or more of the time is lost to SMs without a block |
| latency or occupancy | none is, and the blocks fill the GPU: warps wait, and too few are there to hide it |

Below 60 % Nsight Compute's own speed-of-light rule begins to speak of latency, too. The loss to idle SMs follows from
the launch: with n waves of blocks it is 1 - n / ceil(n); where all blocks fit at once, the same of blocks per SM, so
that a persistent kernel of one block an SM loses nothing.

A call: `launch or host`, where its measured latency is known and kernels fill less than three quarters of it; else what
bounds the largest part of the kernels' time.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from d2k_agent.contract.profile import Bottleneck, Diagnosis, Evidence, KernelProfile
from d2k_agent.evaluator.profiling import metrics

BUSY_PERCENT = 60.0
IDLE_PERCENT = 25.0
GAP_PERCENT = 25.0

IDLE = "time lost to SMs without a block"
GAP = "part of the call's latency without a kernel"


@dataclass(frozen=True)
class Unit:
    """A unit's busy part of the kernel in percent (None: not known), by which counter."""

    bottleneck: Bottleneck
    counter: str
    percent: float | None


def kernel_diagnosis(
    units: Sequence[Unit], sm_percent: float | None, idle_percent: float | None, occupancy_percent: float | None
) -> Diagnosis | None:
    """What bounds a kernel; None where its counters do not tell.

    `sm_percent` is the throughput of the SM as a whole, `idle_percent` what idle_percent() says of the launch.
    """
    known = [(unit.percent, unit) for unit in units if unit.percent is not None]
    if not known:
        return None
    percent, busiest = max(known, key=lambda item: item[0])
    if percent >= BUSY_PERCENT:
        return Diagnosis(busiest.bottleneck, (Evidence(busiest.counter, percent, BUSY_PERCENT),))
    if sm_percent is not None and sm_percent >= BUSY_PERCENT:
        return None
    below = Evidence(busiest.counter, percent, BUSY_PERCENT, below=True)
    if idle_percent is not None and idle_percent >= IDLE_PERCENT:
        return Diagnosis(Bottleneck.TAIL, (Evidence(IDLE, idle_percent, IDLE_PERCENT), below))
    occupancy = [] if occupancy_percent is None else [Evidence(metrics.OCCUPANCY, occupancy_percent)]
    return Diagnosis(Bottleneck.LATENCY, (below, *occupancy))


def idle_percent(grid: Iterable[int], waves: float | None, multiprocessors: float | None) -> float | None:
    """The part of a kernel's time that SMs stand without a block, were all blocks equally long; None if unknown."""
    if waves is None or waves <= 0:
        return None
    if waves >= 1:
        filled = waves
    elif multiprocessors:
        filled = math.prod(grid) / multiprocessors
    else:
        return None
    # Waves are told with two decimals: 3.001 are three.
    rounds = math.ceil(filled - 0.005)
    return 100 * max(0.0, 1 - filled / rounds) if rounds else None


def call_diagnosis(kernels: Sequence[KernelProfile], duration_us: float, call_us: float | None) -> Diagnosis | None:
    """What bounds a call of these kernels, `duration_us` of them in all; None where most of the time is undecided."""
    told: tuple[Evidence, ...] = ()
    if call_us is not None:
        gap = max(0.0, 100 * (1 - duration_us / call_us))
        if gap >= GAP_PERCENT:
            return Diagnosis(Bottleneck.LAUNCH, (Evidence(GAP, gap, GAP_PERCENT),))
        told = (Evidence(GAP, gap, GAP_PERCENT, below=True),)
    shares: dict[Bottleneck | None, float] = {}
    for kernel in kernels:
        bottleneck = kernel.diagnosis.bottleneck if kernel.diagnosis else None
        shares[bottleneck] = shares.get(bottleneck, 0.0) + kernel.share
    largest = max(shares, key=shares.__getitem__, default=None)
    if largest is None:
        return None
    part = Evidence(f"kernels bounded by {largest}, part of the kernels' time", 100 * shares[largest])
    return Diagnosis(largest, (part, *told))
