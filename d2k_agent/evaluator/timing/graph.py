"""A CUDA graph of many calls, and whether its kernels are those of one call, repeated."""

from __future__ import annotations

import hashlib
import secrets
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Self

import torch

from d2k_agent.contract import VerdictStatus
from d2k_agent.evaluator.attached import AttachedSet, outputs_of
from d2k_agent.evaluator.devices.nodes import graph_to_read, kernel_nodes
from d2k_agent.evaluator.faults import CandidateFault
from d2k_agent.evaluator.metering import MeteredCalls
from d2k_agent.evaluator.process import Raised, decode

METERED_IN = 8
_UNCAPTURED = (
    "while its calls were captured into a CUDA graph, as this task times them: run() may neither wait for the GPU nor "
    "copy between it and the host's memory (a tensor made of a list is such a copy: fill it on the GPU)"
)


@dataclass(frozen=True)
class Kernels:
    """What a process says of a capture. Names are a candidate's own choice: evidence.py says which may be.

    single    kernels of one call
    captured  kernels of all calls
    repeated  whether these are those of one call, again and again
    digest    of one call's kernels by name, grid, block and shared memory
    names     how often all calls launch which kernel; empty where none can be read
    """

    single: int
    captured: int
    repeated: bool
    digest: str
    names: dict[str, int] = field(default_factory=dict)

    @classmethod
    def read(cls, payload: bytes) -> Self:
        """What a process sent. Raises ValueError where that is something else."""
        told = decode(payload)
        try:
            names = {str(name): int(count) for name, count in told["names"].items()}
            single, captured = int(told["single"]), int(told["captured"])
            return cls(single, captured, told["repeated"] is True, str(told["digest"]), names)
        except (KeyError, TypeError, AttributeError) as problem:
            raise ValueError(str(problem)) from None


def kernels_of(capture: Callable[[], bytes], label: str) -> Kernels:
    """What a process answers to the order to capture calls on the workload of that label.

    Raises CandidateFault; where run() does what no graph can hold, its message says so.
    """
    try:
        return Kernels.read(capture())
    except Raised as fault:
        if fault.status is VerdictStatus.RUNTIME_ERROR:  # calls that were not captured went well
            raise fault.because(_UNCAPTURED) from fault
        raise
    except ValueError:
        what = f"capturing {label} answered out of protocol"
        raise CandidateFault(VerdictStatus.ENDED_EARLY, what) from None


def irregular(told: Kernels, calls: int, digest: str | None) -> str:
    """What is wrong with a capture of that many calls, in words; empty where nothing is.

    `digest` is that of an earlier capture of the same run(), None for the first one.
    """
    if told.single < 1:
        return "run() launches no kernel that a graph can capture"
    if not told.repeated or told.captured != told.single * calls:
        return f"{told.captured} kernels were captured for {calls} calls, one call alone makes {told.single}"
    if digest is not None and told.digest != digest:
        return "a call launches other kernels than it did when it was captured before"
    return ""


def _at_times(metered: MeteredCalls) -> AbstractContextManager[None]:
    """A context for a call that may be metered."""
    return nullcontext() if secrets.randbelow(METERED_IN) else metered.one()


class CallGraph:
    """`calls` calls of run() over the sets in turn, captured once.

    `outputs` are those of each set in round `keep`, which nobody but the supervisor chose. One call in METERED_IN is
    `metered`, and nobody can know which.
    """

    def __init__(
        self, run: Callable[..., Any], sets: Sequence[AttachedSet], calls: int, keep: int, metered: MeteredCalls
    ) -> None:
        self.calls = calls
        # Those of the round before live as well: calls rotate over allocations as over inputs.
        self._latest: dict[int, tuple[torch.Tensor, ...]] = {}
        self.outputs: dict[int, tuple[torch.Tensor, ...]] = {}
        one = graph_to_read()
        with torch.cuda.graph(one), metered.one():
            outputs_of(run(*sets[0].arguments))
        self._graph = graph_to_read()
        with torch.cuda.graph(self._graph):
            for number in range(calls):
                index = number % len(sets)
                with _at_times(metered):
                    self._latest[index] = outputs_of(run(*sets[index].arguments))
                if number // len(sets) == keep:
                    self.outputs[index] = self._latest[index]
        of_one, of_all = kernel_nodes(one), kernel_nodes(self._graph)
        self.kernels = Kernels(
            single=len(of_one),
            captured=len(of_all),
            repeated=Counter(of_all) == Counter(of_one * calls),
            digest=hashlib.sha256("\n".join(sorted(map(str, of_one))).encode()).hexdigest(),
            names=dict(Counter(node.name for node in of_all)),
        )
        self._graph.instantiate()

    def replay(self) -> None:
        """Run all calls once more, on the current stream."""
        self._graph.replay()


class RepeatedCalls:
    """The same on a CPU, which has no graphs: replay() makes the calls anew. It shows what a supervisor would see."""

    def __init__(
        self, run: Callable[..., Any], sets: Sequence[AttachedSet], calls: int, keep: int, metered: MeteredCalls
    ) -> None:
        self._run, self._sets, self._keep, self._metered = run, sets, keep, metered
        self.calls = calls
        self.kernels = Kernels(single=1, captured=calls, repeated=True, digest="")
        self.outputs: dict[int, tuple[torch.Tensor, ...]] = {}
        self.replay()

    def replay(self) -> None:
        """Make all calls once more."""
        for number in range(self.calls):
            index = number % len(self._sets)
            with _at_times(self._metered):
                outputs = outputs_of(self._run(*self._sets[index].arguments))
            if number // len(self._sets) == self._keep:
                self.outputs[index] = outputs
