"""Times a call on several ranks: the latency is that of the slowest, and what crosses the links is counted."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from d2k_agent.contract import Limits, VerdictStatus, Violation
from d2k_agent.evaluator.faults import CandidateFault
from d2k_agent.evaluator.ranges import Kind
from d2k_agent.evaluator.ranks.checking import CallsOfRanks, overrun, watched
from d2k_agent.evaluator.ranks.device import RankedDevice
from d2k_agent.evaluator.ranks.group import RankGroup
from d2k_agent.evaluator.ranks.task import RankedTask
from d2k_agent.evaluator.timing import policy as rules
from d2k_agent.evaluator.timing.measure import WorkloadTimer
from d2k_agent.evaluator.timing.segment import Segment, Timed

LEAST_SHARE = 0.9
"""Of the bytes that have to cross a link, since counters count in KiB and draws differ."""


class RankedTimer(WorkloadTimer):
    """A WorkloadTimer of several ranks. A claim is merged before it is seen here: the longest over ranks."""

    _checker = CallsOfRanks

    def __init__(self, task: RankedTask, device: RankedDevice, process: RankGroup, *rest: Any) -> None:
        self._ranks = device
        super().__init__(task, device, process, *rest)
        if self._policy.graph and (process.gathers or (device.uuids and not device.apart)):
            # What waits for the host cannot be captured; ranks that share a GPU wait for each other's turns on it.
            self._policy = rules.EVENTS_BATCH
        self._required = task.link_bytes(self._workload)
        self._sent: list[int] = []
        self._counted = 0

    def _bounded(self, limits: Limits) -> Limits:
        return watched(limits, self._ranks)

    def measure(self, audited: bool = True) -> Timed:
        """The latency, and the bytes that each rank sent in a call, None where nobody counts them.

        Raises CandidateFault where a rank sent less than has to cross the link.
        """
        self._sent, self._counted = [], 0
        timed = super().measure(audited)
        if not self._sent:
            return dataclasses.replace(timed, notes=uncounted(self._label, self._required, self._ranks.apart))
        each = tuple(float(sent) / self._counted for sent in self._sent)
        if told := too_little(each, self._required):
            message = f"{self._label}: {told}"
            raise CandidateFault(VerdictStatus.RULE_VIOLATION, message, (Violation("runtime.links", message),))
        return dataclasses.replace(timed, measurement=dataclasses.replace(timed.measurement, link_bytes=each))

    def _verify(self, calls: int, inspect: bool, most: int | None = None) -> None:
        """As for any task; and no rank wrote behind a workspace."""
        super()._verify(calls, inspect, most)
        self._accept(overrun(self._ranks))

    def _segment(self, seconds: float, kind: Kind = "batch") -> Segment:
        before = self._ranks.sent_bytes()
        segment = super()._segment(seconds, kind)
        after = self._ranks.sent_bytes()
        if kind == "batch" and before is not None and after is not None:
            new = [end - start for start, end in zip(before, after, strict=True)]
            self._sent = [sum(counts) for counts in zip(self._sent or [0] * len(new), new, strict=True)]
            self._counted += segment.calls
        return segment


def uncounted(label: str, required: float | None, apart: bool) -> list[str]:
    """What has to be said where nobody counted: that bytes which have to cross links between GPUs went unseen."""
    unseen = required is not None and apart
    return [f"{label}: nobody counts here what crosses the links, so no rank was held to its bytes"] * unseen


def too_little(sent: Sequence[float], required: float | None) -> str:
    """What is missing of the bytes that each rank has to send in a call; empty where nothing is, or nobody knows."""
    if required is None or min(sent) >= LEAST_SHARE * required:
        return ""
    rank = sent.index(min(sent))
    return (
        f"rank {rank} sent {sent[rank]:.0f} bytes a call over its links, and {required:.0f} have to cross: "
        "data between ranks must move through ws_ptrs in every call"
    )
