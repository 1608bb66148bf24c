"""A CPU device that times, for tests of timing without a GPU, and policies of which a test has the seconds."""

from __future__ import annotations

import dataclasses

from d2k_agent.evaluator.devices import CpuDevice
from d2k_agent.evaluator.timing.policy import EVENTS_BATCH, GRAPH_ROTATING, TimingPolicy


class TimedCpu(CpuDevice):
    """The CPU device, which measures nothing for users."""

    times = True

    def __init__(self, *uuids: str) -> None:
        self.uuids = uuids


def short_policy(graph: bool = False, segment_s: float = 0.3, step_ms: float = 2.0, noise: float = 2.0) -> TimingPolicy:
    """Short segments, and tolerances for a machine that has other work to do."""
    return dataclasses.replace(
        GRAPH_ROTATING if graph else EVENTS_BATCH,
        id="test",
        warm_s=0.1,
        segments=2,
        segment_s=segment_s,
        graph_calls=16,
        step_ms=step_ms,
        wall=0.3,
        audit=3.0,
        noise=noise,
    )
