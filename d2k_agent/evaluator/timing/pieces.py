"""Pieces of timed work that a process is told to do, each between two looks at the supervisor's own clock."""

from __future__ import annotations

import math
import secrets
import time
from typing import Any

from d2k_agent.contract import Limits, VerdictStatus
from d2k_agent.evaluator.devices import Device
from d2k_agent.evaluator.devices.cpu import SharedMemory
from d2k_agent.evaluator.devices.nvml import Load
from d2k_agent.evaluator.faults import CandidateFault
from d2k_agent.evaluator.process import CandidateProcess
from d2k_agent.evaluator.timing.audit import Step
from d2k_agent.evaluator.timing.page import BYTES, GO, Page
from d2k_agent.evaluator.timing.segment import Segment
from d2k_agent.evaluator.timing.timed import CLAIM

MOST_LAG_S = 0.003
"""An answer comes this soon after the word on the page that a step is done."""
TRY_MS = 10.0
"""Replays that last this long tell how many a segment needs."""
TRIES = 3
"""The quickest of so many tells how long a replay takes."""
MOST_TRIED = 1 << 20
"""No graph is replayed so often in TRY_MS: whatever answers sooner replays nothing."""


class TimedPieces:
    """Orders of one workload, labelled `label`, to a process of `ranks` ranks: batches, replays of a graph, steps.

    `first` is the set that the latest piece began with, `loads` what the GPU was like in the pieces so far, and
    `timed_s` the seconds that they took. Whatever asks the process raises CandidateFault where it fails.
    """

    def __init__(self, process: CandidateProcess, device: Device, limits: Limits, label: str, ranks: int) -> None:
        self._process, self._device, self._limits, self._label = process, device, limits, label
        self._memory = SharedMemory("page", BYTES)
        self._page = Page(self._memory.mapping, ranks)
        self._steps = 0
        self._replay_ms: float | None = None
        self.first = 0
        self.loads: list[Load] = []
        self.timed_s = 0.0

    def close(self) -> None:
        """Give the page back."""
        self._page.close()
        self._memory.close()

    def share_page(self) -> None:
        """Hand the page to the process, whose sets are attached."""
        self.ask({"do": "page"}, b"A", self._memory.share()[1])

    def ask(self, request: dict[str, Any], expected: bytes, descriptors: list[int] | None = None) -> bytes:
        """What the process answers to an order."""
        self._process.order(request, descriptors or [])
        return self._answer(expected)

    def batch(self, seconds: float, sets: int) -> Segment:
        """Calls for a little more than `seconds`, from one of the sets on that nobody knows before."""
        self._page.begin()
        self._device.settle()
        began = time.perf_counter()
        self.first = secrets.randbelow(sets)
        self._process.order({"do": "batch", "first": self.first})
        time.sleep(seconds * (1 + secrets.randbelow(1000) / 5000))
        self.loads.append(self._device.load())
        self._page.stop()
        return self._segment(self._answer(b"B"), began)

    def capture(self, sets: int, calls: int) -> bytes:
        """What a graph of so many calls over the first sets holds; nobody knows which round's outputs are kept."""
        self._replay_ms = None
        keep = secrets.randbelow(calls // sets)
        return self.ask({"do": "capture", "calls": calls, "sets": sets, "keep": keep}, b"A")

    def replays(self, seconds: float) -> Segment:
        """Replays of the graph that was captured last, as many as last `seconds` if each takes what the latest did."""
        times = math.ceil(1e3 * seconds / self.replay_ms())
        segment = self._replayed(times)
        self._replay_ms = segment.wall_ms / times
        return segment

    def replay_ms(self) -> float:
        """Milliseconds of one replay by the supervisor's clock. What held one try up holds no other up."""
        if self._replay_ms is None:
            self._replay_ms = min(self._tried_ms() for _ in range(TRIES))
        return self._replay_ms

    def _tried_ms(self) -> float:
        times = 1
        while (tried := self._replayed(times)).wall_ms < TRY_MS:
            times *= 2
            if times > MOST_TRIED:
                raise self._out_of_protocol()
        return tried.wall_ms / times

    def step(self, calls: int, first: int) -> Step:
        """One step, from telling the process to begin to its word that all is done. Calls begin with set `first`."""
        self._steps += 1
        self.first = first
        self._process.order({"do": "step", "number": self._steps, "calls": calls, "first": first})
        time.sleep(0.001)  # it is at the page by then, and waits
        deadline = time.monotonic() + self._limits.gpu_call_s
        began = time.perf_counter()
        self._page[GO] = self._steps
        self._page.wait_done(self._steps, lambda: self._process.has_answered() or time.monotonic() > deadline)
        done = time.perf_counter()
        payload = self._answer(b"B", max(0.0, deadline - time.monotonic()))
        answered = time.perf_counter()
        # The answer follows the word at once, or the word was not true.
        wall_ms = 1e3 * ((done if answered - done < MOST_LAG_S else answered) - began)
        self.timed_s += wall_ms / 1e3
        return Step(wall_ms, self._claim(payload)[1])

    def _replayed(self, times: int) -> Segment:
        self.first = 0
        began = time.perf_counter()
        self._process.order({"do": "replay", "times": times})
        segment = self._segment(self._answer(b"B"), began)
        self.loads.append(self._device.load())
        return segment

    def _answer(self, expected: bytes, limit_s: float | None = None) -> bytes:
        limit_s = self._limits.gpu_call_s if limit_s is None else limit_s
        return self._process.answer(expected, limit_s, f"run() on {self._label}")

    def _segment(self, payload: bytes, began: float) -> Segment:
        """The segment that ended now."""
        wall_ms = 1e3 * (time.perf_counter() - began)
        self.timed_s += wall_ms / 1e3
        return Segment(*self._claim(payload), wall_ms)

    def _claim(self, payload: bytes) -> tuple[int, float]:
        calls, claim_ms = CLAIM.unpack(payload) if len(payload) == CLAIM.size else (0, 0.0)
        if calls < 1 or not 0 < claim_ms < 1e9:
            raise self._out_of_protocol()
        return calls, claim_ms

    def _out_of_protocol(self) -> CandidateFault:
        return CandidateFault(VerdictStatus.ENDED_EARLY, f"timing {self._label} answered out of protocol")
