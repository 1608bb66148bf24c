"""Timing policies: what a measurement's id stands for. Candidate, baseline and reference are timed under one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from d2k_agent.contract.rotation import sets_for
from d2k_agent.evaluator.devices import Device


@dataclass(frozen=True)
class TimingPolicy:
    """How calls are timed. Seconds are wall-clock seconds.

    id          clock, mode and state of the caches, as reports print it
    graph       calls are captured into a CUDA graph and replayed; else they are launched from Python, two ahead
    warm_s      timed work that is thrown away first, while clocks settle
    segments    pieces that are timed from inside and from outside, `segment_s` seconds each, never much less
    graph_calls calls in a graph, about, and fewer where these outlast a segment; each set is visited equally often
    step_ms     an audited step lasts this many milliseconds or more, so that what its ends cost is lost in it
    wall        a claim may fall short of the outside clock by this fraction in its best segment
    audit       audited steps may be slower than the claim by this fraction, and by AUDIT_STEP_MS a step
    noise       segments that differ by more than this fraction are measured again, then reported as noisy
    """

    id: str
    graph: bool
    warm_s: float
    segments: int
    segment_s: float
    graph_calls: int = 2000
    step_ms: float = 50.0
    wall: float = 0.01
    audit: float = 0.03
    noise: float = 0.03


EVENTS_BATCH = TimingPolicy("events_batch", graph=False, warm_s=1.0, segments=2, segment_s=1.0)
"""Calls of a millisecond and more: batches of a second and more over rotating sets, the first second dropped."""
GRAPH_ROTATING = TimingPolicy("graph_rotating", graph=True, warm_s=0.4, segments=5, segment_s=0.2)
"""Shorter calls, which Python may begin more slowly than the GPU ends them: replays of a graph of about 2,000 calls
over rotating sets, so that the L2 cache is cold. Beside it stands `graph_hot`, the same over one set: the published
protocol's cache state."""

POLICIES = {"batch": EVENTS_BATCH, "graph": GRAPH_ROTATING}
"""By mode."""

AUDIT_STEP_MS = 0.05
AUDIT_STEPS = 10
FRESH_STEPS, FRESH_SETS, FRESH_SLOWER = 8, 64, 0.15
"""Steps with one call a set, of this many sets at most: contents of all sets are written anew before each,
the same contents or new ones. What is remembered of contents is of no use with new ones; the best step with them may
be slower by this fraction than the best with the same."""
FRESH_CLAIM, FRESH_STEP_MS, FRESH_STEP_CLAIM_MS = 1.2, 0.25, 0.1
"""It may also take no longer than this many times the claim, and this much a step by the supervisor's clock, and this
much by the clock inside: kernels can tell such a step from a batch (by its pauses, say) and do honest work in both
kinds. A step costs about 0.15 ms by itself on an H200, most of it outside of the clock inside."""
FRESH_JITTER_MS = 0.02
"""By the clock inside, steps with new contents may also be slower than others by this much."""


def policies_of(hidden: dict[str, Any], labels: Sequence[str]) -> dict[str, TimingPolicy]:
    """The policies of a task's workloads, and "" the one of the others, as hidden/workloads.json asks for them:
    "timing": {"mode": ..., "workloads": {label: mode}}, of which the second part may be missing, and batch all of it.

    Raises ValueError that says what may stand there.
    """
    timing = hidden.get("timing", {"mode": "batch"})
    modes = {}
    if isinstance(timing, dict) and set(timing) <= {"mode", "workloads"}:
        own = timing.get("workloads", {})
        modes = {**own, "": timing.get("mode")} if isinstance(own, dict) and set(own) <= set(labels) else {}
    if not modes or not all(isinstance(mode, str) and mode in POLICIES for mode in modes.values()):
        raise ValueError(
            f'timing must be {{"mode": ...}} with one of {", ".join(POLICIES)}, beside it at most "workloads" with '
            f"modes by the label of registered ones, not {timing!r:.80}"
        )
    return {label: POLICIES[mode] for label, mode in modes.items()}


def sets_on(device: Device, sizes: Sequence[int]) -> int:
    """Over how many sets calls rotate, from the bytes of inputs and of outputs of one set, which stand in blocks of
    their own. Several GPUs hold a like share of each.
    """
    granule = device.granule_bytes
    own = [-(-size // max(1, len(device.uuids))) for size in sizes]
    return sets_for(sum(own), device.l2_bytes, device.most_sets, sum(-(-size // granule) * granule for size in own))


def graph_calls(most: float, sets: int) -> int:
    """Calls in a graph: whole rounds over the sets, no more calls than that, but one round at least."""
    return sets * max(1, math.floor(most / sets))


def calls_a_step(mean_ms: float, step_ms: float) -> int:
    """Calls in one audited step, so that it lasts `step_ms` or more."""
    return max(1, math.ceil(step_ms / mean_ms))
