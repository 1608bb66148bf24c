"""A modelled latency: what a roofline makes of counted work, where nothing was measured. Never a Measurement.

Covers: the types and what cannot be in them. Does not cover: how work is counted and what the model is (evaluator).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

MOST_LAUNCHES = 200
"""Launches of one workload that a ModelledLatency lists; those that were alike are one."""


@dataclass(frozen=True)
class ModelledLaunch:
    """Launches of one kernel that are alike, `times` of them in a call. Counts and `ms` are of one of them, and None
    where it is not modelled (0 in records from before).

    sampled            programs that were interpreted, of the product of `grid`
    product_flops      operations of tl.dot by the kind of its operands; a multiplication and an addition are two
    loaded_bytes       bytes of unmasked elements; stored_bytes likewise, atomics included
    moved_bytes        bytes of the 32-byte sectors that those touch, each access by itself: traffic of the L2 cache
    compulsory_bytes   bytes of device memory where each touched byte passes it once
    arithmetic         other floating-point operations, by elements of blocks
    integers           operations on integers and truth values that rest on memory, likewise
    atomics            elements of atomic operations
    spread             coefficient of variation of the modelled work of a program over the sample; None below two
    bound              what the model says decides; None without `ms`
    why_not            why this launch is not modelled; None where it is
    """

    kernel: str
    grid: tuple[int, ...]
    times: int
    sampled: int = 0
    ms: float | None = None
    bound: str | None = None
    product_flops: dict[str, float] | None = None
    loaded_bytes: float | None = None
    stored_bytes: float | None = None
    moved_bytes: float | None = None
    compulsory_bytes: float | None = None
    arithmetic: float | None = None
    integers: float | None = None
    atomics: float | None = None
    spread: float | None = None
    notes: tuple[str, ...] = ()
    why_not: str | None = None

    def __post_init__(self) -> None:
        _refuse_impossible(f"launch of {self.kernel}", self.ms, self.why_not)
        counts = (self.product_flops, self.loaded_bytes, self.stored_bytes, self.moved_bytes, self.compulsory_bytes)
        if self.ms is not None and None in counts:
            raise ValueError(f"launch of {self.kernel}: it is modelled without a count of its work")
        if self.times < 1:
            raise ValueError(f"launch of {self.kernel}: {self.times} times is no launch")

    @property
    def programs(self) -> int:
        """Programs of the grid."""
        return math.prod(self.grid)


@dataclass(frozen=True)
class ModelledWorkload:
    """One registered workload: the sum over its launches, None where any of them, or the call, is not modelled."""

    label: str
    ms: float | None
    launches: tuple[ModelledLaunch, ...] = ()
    why_not: str | None = None

    def __post_init__(self) -> None:
        _refuse_impossible(f"workload {self.label}", self.ms, self.why_not)
        if self.ms is not None and any(launch.ms is None for launch in self.launches):
            raise ValueError(f"workload {self.label}: a sum without one of its launches")


@dataclass(frozen=True)
class ModelledLatency:
    """What the model says of one candidate on one target. `basis` names ceilings and assumptions, a sentence each.

    `seconds` is what counting took, None where it did not come to its end. There is nothing here that a score may rest
    on.
    """

    target: str
    workloads: tuple[ModelledWorkload, ...]
    basis: tuple[str, ...] = ()
    seconds: float | None = None

    @property
    def geomean_ms(self) -> float | None:
        """Geometric mean of the workloads' modelled milliseconds; None unless every one is modelled."""
        values = [workload.ms for workload in self.workloads]
        known = [value for value in values if value is not None]
        if not known or len(known) < len(values):
            return None
        return math.exp(sum(map(math.log, known)) / len(known))


def _refuse_impossible(what: str, ms: float | None, why_not: str | None) -> None:
    if ms is not None and not (math.isfinite(ms) and ms > 0):
        raise ValueError(f"{what}: a modelled latency is a positive number of milliseconds, not {ms}")
    if (ms is None) != (why_not is not None):
        raise ValueError(f"{what}: it is modelled, or there is a reason why not")
