"""The kernel nodes of a captured CUDA graph, read through the driver: nothing runs for it, and no profiler starts."""

from __future__ import annotations

import ctypes
from typing import NamedTuple

import torch

from d2k_agent.evaluator.devices import driver

_KERNEL_NODE = 0
_SHAPE = ("gx", "gy", "gz", "bx", "by", "bz", "shared")


class KernelNode(NamedTuple):
    """One launch: the name as the driver has it (C++ names mangled); grid, block and bytes of shared memory."""

    name: str
    shape: tuple[int, ...]


class _KernelNodeParams(ctypes.Structure):
    """CUDA_KERNEL_NODE_PARAMS_v2."""

    _fields_ = [
        ("function", ctypes.c_void_p),
        *((name, ctypes.c_uint) for name in _SHAPE),
        ("parameters", ctypes.c_void_p),
        ("extra", ctypes.c_void_p),
        ("kernel", ctypes.c_void_p),
        ("context", ctypes.c_void_p),
    ]


def graph_to_read() -> torch.cuda.CUDAGraph:
    """A graph that can be looked into: torch keeps the captured one beside the one it runs."""
    return torch.cuda.CUDAGraph(keep_graph=True)


def kernel_nodes(graph: torch.cuda.CUDAGraph) -> list[KernelNode]:
    """The launches of a captured graph (graph_to_read), in no order."""
    handle = ctypes.c_void_p(graph.raw_cuda_graph())
    count = ctypes.c_size_t()
    driver.call("cuGraphGetNodes", handle, None, ctypes.byref(count))
    nodes = (ctypes.c_void_p * count.value)()
    if count.value:
        driver.call("cuGraphGetNodes", handle, nodes, ctypes.byref(count))
    found = []
    for node in map(int, nodes):
        kind = ctypes.c_int()
        driver.call("cuGraphNodeGetType", ctypes.c_void_p(node), ctypes.byref(kind))
        if kind.value == _KERNEL_NODE:
            found.append(_read(node))
    return found


def _read(node: int) -> KernelNode:
    parameters = _KernelNodeParams()
    driver.call("cuGraphKernelNodeGetParams_v2", ctypes.c_void_p(node), ctypes.byref(parameters))
    name = ctypes.c_char_p()
    if parameters.function:
        driver.call("cuFuncGetName", ctypes.byref(name), ctypes.c_void_p(parameters.function))
    else:
        driver.call("cuKernelGetName", ctypes.byref(name), ctypes.c_void_p(parameters.kernel))
    shape = tuple(int(getattr(parameters, field)) for field in _SHAPE)
    return KernelNode((name.value or b"").decode("utf-8", "replace"), shape)
