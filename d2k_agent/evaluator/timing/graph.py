"""A CUDA graph of many calls, and whether its kernels are those of one call, repeated."""

from __future__ import annotations

import ctypes
import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from d2k_agent.evaluator.attached import AttachedSet, outputs_of
from d2k_agent.evaluator.devices import driver

_KERNEL_NODE = 0


class _KernelNodeParams(ctypes.Structure):
    """CUDA_KERNEL_NODE_PARAMS_v2."""

    _fields_ = [
        ("function", ctypes.c_void_p),
        *((name, ctypes.c_uint) for name in ("gx", "gy", "gz", "bx", "by", "bz", "shared")),
        ("parameters", ctypes.c_void_p),
        ("extra", ctypes.c_void_p),
        ("kernel", ctypes.c_void_p),
        ("context", ctypes.c_void_p),
    ]


@dataclass(frozen=True)
class Kernels:
    """What a process says of a capture. No names: a candidate chooses them.

    single    kernels of one call
    captured  kernels of all calls
    repeated  whether these are those of one call, again and again
    digest    of one call's kernels by name, grid, block and shared memory
    """

    single: int
    captured: int
    repeated: bool
    digest: str


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


class CallGraph:
    """`calls` calls of run() over the sets in turn, captured once.

    `outputs` are those of each set in round `keep`, which nobody but the supervisor chose.
    """

    def __init__(self, run: Callable[..., Any], sets: Sequence[AttachedSet], calls: int, keep: int) -> None:
        self.calls = calls
        # Those of the round before live as well: calls rotate over allocations as over inputs.
        self._latest: dict[int, tuple[torch.Tensor, ...]] = {}
        self.outputs: dict[int, tuple[torch.Tensor, ...]] = {}
        one = _graph()
        with torch.cuda.graph(one):
            outputs_of(run(*sets[0].arguments))
        self._graph = _graph()
        with torch.cuda.graph(self._graph):
            for number in range(calls):
                index = number % len(sets)
                self._latest[index] = outputs_of(run(*sets[index].arguments))
                if number // len(sets) == keep:
                    self.outputs[index] = self._latest[index]
        of_one, of_all = kernel_names(one), kernel_names(self._graph)
        self.kernels = Kernels(
            single=len(of_one),
            captured=len(of_all),
            repeated=Counter(of_all) == Counter(of_one * calls),
            digest=hashlib.sha256("\n".join(sorted(of_one)).encode()).hexdigest(),
        )
        self._graph.instantiate()

    def replay(self) -> None:
        """Run all calls once more, on the current stream."""
        self._graph.replay()


class RepeatedCalls:
    """The same on a CPU, which has no graphs: replay() makes the calls anew. It shows what a supervisor would see."""

    def __init__(self, run: Callable[..., Any], sets: Sequence[AttachedSet], calls: int, keep: int) -> None:
        self._run, self._sets, self._keep = run, sets, keep
        self.calls = calls
        self.kernels = Kernels(single=1, captured=calls, repeated=True, digest="")
        self.outputs: dict[int, tuple[torch.Tensor, ...]] = {}
        self.replay()

    def replay(self) -> None:
        """Make all calls once more."""
        for number in range(self.calls):
            index = number % len(self._sets)
            outputs = outputs_of(self._run(*self._sets[index].arguments))
            if number // len(self._sets) == self._keep:
                self.outputs[index] = outputs


def kernel_names(graph: torch.cuda.CUDAGraph) -> list[str]:
    """The kernels of a captured graph, one a launch, in no order: name, grid, block, bytes of shared memory."""
    handle = ctypes.c_void_p(graph.raw_cuda_graph())
    count = ctypes.c_size_t()
    driver.call("cuGraphGetNodes", handle, None, ctypes.byref(count))
    nodes = (ctypes.c_void_p * count.value)()
    if count.value:
        driver.call("cuGraphGetNodes", handle, nodes, ctypes.byref(count))
    names = []
    for node in map(int, nodes):
        kind = ctypes.c_int()
        driver.call("cuGraphNodeGetType", ctypes.c_void_p(node), ctypes.byref(kind))
        if kind.value == _KERNEL_NODE:
            names.append(_name_of(node))
    return names


def _name_of(node: int) -> str:
    parameters = _KernelNodeParams()
    driver.call("cuGraphKernelNodeGetParams_v2", ctypes.c_void_p(node), ctypes.byref(parameters))
    name = ctypes.c_char_p()
    if parameters.function:
        driver.call("cuFuncGetName", ctypes.byref(name), ctypes.c_void_p(parameters.function))
    else:
        driver.call("cuKernelGetName", ctypes.byref(name), ctypes.c_void_p(parameters.kernel))
    shape = [getattr(parameters, field) for field in ("gx", "gy", "gz", "bx", "by", "bz", "shared")]
    return f"{(name.value or b'').decode('utf-8', 'replace')} {shape}"


def _graph() -> torch.cuda.CUDAGraph:
    """A graph that can be looked into: torch keeps the captured one beside the one it runs."""
    return torch.cuda.CUDAGraph(keep_graph=True)
