"""A piece of timed work by two clocks, and what a claim that falls short of the outside one amounts to."""

from __future__ import annotations

from dataclasses import dataclass


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


def wall_suspicion(segments: list[Segment], tolerance: float) -> dict[str, str]:
    """Does the claim fall short of the outside clock, or go beyond it, even in the best segment?"""
    gaps = [segment.wall_ms / segment.claim_ms - 1 for segment in segments]
    best = min(gaps, key=abs)
    if abs(best) <= tolerance:
        return {}
    side = "shorter" if best > 0 else "longer"
    return {"timing.wall": f"the claimed time is {abs(best):.1%} {side} than the supervisor's own clock saw"}
