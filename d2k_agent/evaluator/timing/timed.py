"""The candidate's side of timed work: it runs what it is told to and claims how long that took.

The claim is checked from outside (measure.py). Outputs of timed calls are kept and handed over when asked for.
"""

from __future__ import annotations

import dataclasses
import json
import secrets
import struct
from collections import deque
from collections.abc import Callable
from typing import Any

import torch

from d2k_agent.evaluator import layout
from d2k_agent.evaluator.attached import AttachedSet, outputs_of
from d2k_agent.evaluator.devices.inside import Inside, Mark, map_descriptor
from d2k_agent.evaluator.metering import MeteredCalls
from d2k_agent.evaluator.timing.graph import CallGraph, RepeatedCalls
from d2k_agent.evaluator.timing.page import DONE, GO, STOP, Page

CLAIM = struct.Struct("<qd")
"""Calls made, and milliseconds that they took by events on the GPU."""
METERED_SOON = 8
"""The first metered call of a batch comes within so many, the next within a few times as many as were made by then."""
QUEUED = 2
"""Calls that are begun ahead of the one that runs: the GPU never waits for Python, and a stop is obeyed at once."""

Frame = tuple[bytes, bytes]


class TimedCalls:
    """run() over attached sets, in the order of the sets, again and again.

    A few calls of a batch, and of a capture, are metered, and nobody can know which: `metered` is what they came to.
    """

    def __init__(self, run: Callable[..., Any], sets: list[AttachedSet], device: Inside) -> None:
        self._run, self._sets, self._device = run, sets, device
        self._page: Page | None = None
        self._kept: dict[int, tuple[torch.Tensor, ...]] = {}
        self._graph: CallGraph | RepeatedCalls | None = None
        self._done = DONE
        self._first = 0
        self._next_metered = -1
        self.metered = MeteredCalls()

    def handle(self, operation: str, request: dict[str, Any], descriptors: list[int]) -> Frame:
        """Carry out one order; the answer's kind and payload. Calls begin with the set `first`."""
        self._first = int(request.get("first", 0))
        if operation == "page":
            self._page = Page(map_descriptor(descriptors[0]))
            return b"A", b""
        if operation == "steps":
            return b"B", CLAIM.pack(*self._steps(int(request["calls"])))
        if operation == "step":
            return b"B", CLAIM.pack(*self._step(int(request["number"]), int(request["calls"])))
        if operation == "batch":
            return b"B", CLAIM.pack(*self._batch())
        if operation == "capture":
            return b"A", self._capture(request)
        if operation == "replay":
            return b"B", CLAIM.pack(*self._replay(int(request["times"])))
        if operation == "poison":
            self._poison()
            return b"A", b""
        if operation == "give":
            return b"D", self._give(int(request["set"]))
        raise ValueError(f"there is no order {operation!r}")

    def _call(self, number: int) -> None:
        index = (self._first + number) % len(self._sets)
        self._kept[index] = outputs_of(self._run(*self._sets[index].arguments))

    def _call_of_batch(self, number: int) -> None:
        """_call(), metered at times."""
        if number == 0:
            self._next_metered = secrets.randbelow(METERED_SOON)
        if number != self._next_metered:
            self._call(number)
            return
        with self.metered.one():
            self._call(number)
        self._next_metered += 1 + secrets.randbelow(4 * number + METERED_SOON)

    def _steps(self, calls: int) -> tuple[int, float]:
        start = self._device.mark()
        for number in range(calls):
            self._call(number)
        return calls, self._since(start)

    def _since(self, start: Any) -> float:
        """Milliseconds since a mark, once all work is done."""
        end = self._device.mark()
        self._device.synchronize()
        return self._device.elapsed_ms(start, end)

    def _step(self, number: int, calls: int) -> tuple[int, float]:
        """One audited step: begun by the page and ended on it. Calls of a graph are whole replays."""
        assert self._page is not None
        self._page.wait(GO, number)
        made, claim_ms = self._replay(calls // self._graph.calls) if self._graph else self._steps(calls)
        self._page[self._done] = number
        return made, claim_ms

    def _batch(self) -> tuple[int, float]:
        """Calls until the supervisor raises its flag."""
        assert self._page is not None
        ahead = deque[Mark]()
        number = 0
        start = self._device.mark()
        while not self._page[STOP]:
            self._call_of_batch(number)
            number += 1
            ahead.append(self._device.mark())
            if len(ahead) > QUEUED:
                ahead.popleft().synchronize()
        return number, self._since(start)

    def drop(self) -> None:
        """Forget outputs and graphs of earlier calls."""
        self._kept, self._graph = {}, None

    def _capture(self, request: dict[str, Any]) -> bytes:
        self.drop()
        torch.cuda.empty_cache()
        capture = CallGraph if self._sets[0].answers.is_cuda else RepeatedCalls
        sets = self._sets[: int(request["sets"])]
        self._graph = capture(self._run, sets, int(request["calls"]), int(request["keep"]), self.metered)
        self._kept = self._graph.outputs
        return json.dumps(dataclasses.asdict(self._graph.kernels)).encode()

    def _replay(self, times: int) -> tuple[int, float]:
        assert self._graph is not None
        start = self._device.mark()
        for _ in range(times):
            self._graph.replay()
        return times * self._graph.calls, self._since(start)

    def _poison(self) -> None:
        for index, outputs in self._kept.items():
            self._sets[index].poison(outputs)
        self._device.synchronize()

    def _give(self, index: int) -> bytes:
        around = MeteredCalls()  # of its own: the copies are ours, what is called may be the candidate's doing
        with around.one():
            headers = self._sets[index].answer(self._kept[index])
        self.metered.foreign = self.metered.foreign or around.foreign
        self._device.synchronize()
        return layout.pack_answer(layout.AnswerHeader(headers, 0, 0, 0))
