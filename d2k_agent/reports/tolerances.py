"""How far the clocks of one latency may lie apart, by timing policy: for reports, which do not import the evaluator.

A policy that changes gets a new id, so an id says which tolerances a recorded measurement had to meet. A test holds
these numbers to those of the evaluator.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Tolerances:
    """Fractions of the claim, unless a name says otherwise.

    wall            the outside clock may differ by this in the best batch
    audit           audited steps may be slower by this, and by `audit_step_ms` a step
    device          the profiler's clock may show this much more, and `device_ms`
    noise           batches, and rounds, may differ by this among themselves
    """

    wall: float = 0.01
    audit: float = 0.03
    audit_step_ms: float = 0.05
    device: float = 0.5
    device_ms: float = 0.02
    noise: float = 0.03


TOLERANCES = {"events_batch": Tolerances(), "graph_rotating": Tolerances()}
"""By the id that a measurement carries."""
