"""Pieces of timed work by two clocks, what they come to, and a claim that falls short of the outside clock."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

from d2k_agent.contract import Check, Measurement

LEAST_LASTING = 0.8
"""A segment of less than this part of its seconds is too short. How many replays it has, those before it tell."""


@dataclass(frozen=True)
class Segment:
    """One timed piece: calls, milliseconds claimed from inside, milliseconds by the supervisor's clock."""

    calls: int
    claim_ms: float
    wall_ms: float

    @property
    def mean_ms(self) -> float:
        """Milliseconds a call, as claimed."""
        return self.claim_ms / self.calls


@dataclass
class Timed:
    """What timing one workload came to. `suspicions` maps the names of checks to what they saw; `notes` say what could
    not be seen.
    """

    measurement: Measurement
    checks: list[Check]
    suspicions: dict[str, str] = field(default_factory=dict)
    spread: float = 0.0
    notes: list[str] = field(default_factory=list)


def mean_of(segments: list[Segment]) -> float:
    """Milliseconds a call, as claimed, over all of them."""
    return sum(segment.claim_ms for segment in segments) / sum(segment.calls for segment in segments)


def median_of(values: Sequence[float | None]) -> float | None:
    """The middle one of those that are known; None where none is."""
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def spread_of(segments: list[Segment]) -> float:
    """The largest difference between means of segments, as a fraction of the middle one."""
    means = [segment.mean_ms for segment in segments]
    return (max(means) - min(means)) / statistics.median(means)


def short_suspicion(segments: Sequence[Segment], seconds: float) -> dict[str, str]:
    """Did one of them last much less than the `seconds` that were asked for, so that the GPU may have rested before?"""
    shortest_ms = min(segment.wall_ms for segment in segments)
    if shortest_ms >= LEAST_LASTING * 1e3 * seconds:
        return {}
    told = f"timed work lasted {shortest_ms:.3g} ms of {1e3 * seconds:.3g} again and again: calls took longer before"
    return {"timing.short": told}


def wall_suspicion(segments: list[Segment], tolerance: float) -> dict[str, str]:
    """Does the claim fall short of the outside clock, or go beyond it, even in the best segment?"""
    gaps = [segment.wall_ms / segment.claim_ms - 1 for segment in segments]
    best = min(gaps, key=abs)
    if abs(best) <= tolerance:
        return {}
    side = "shorter" if best > 0 else "longer"
    return {"timing.wall": f"the claimed time is {abs(best):.1%} {side} than the supervisor's own clock saw"}
