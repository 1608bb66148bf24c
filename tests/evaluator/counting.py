"""A task for tests of arguments that calls change: bins of x, a count of them that grows, and the latest x plus one."""

from __future__ import annotations

import json

from d2k_agent.contract import TaskBundle

KERNEL = """
import torch
import triton
import triton.language as tl


@triton.jit
def _count(x, bins, load, latest, n, ADDS: tl.constexpr, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + o, mask=o < n)
    bin = (value * 8).to(tl.int32)
    tl.store(bins + o, bin, mask=o < n)
    tl.store(latest + o, value + 1.0, mask=o < n)
    if ADDS:
        tl.atomic_add(load + bin, 1, mask=o < n, sem="relaxed")


def counted(x, load, latest, adds=True):
    bins = torch.empty(x.shape, dtype=torch.int32, device=x.device)
    n = x.numel()
    _count[(triton.cdiv(n, 256),)](x, bins, load, latest, n, ADDS=adds, BLOCK=256)
    return bins

"""
HONEST = KERNEL + "def run(x, load, latest):\n    return counted(x, load, latest)\n"
NEVER_ADDS = KERNEL + "def run(x, load, latest):\n    return counted(x, load, latest, adds=False)\n"
OVERWRITES = KERNEL + "def run(x, load, latest):\n    load.zero_()\n    return counted(x, load, latest)\n"
ADDS_TWICE = KERNEL + "def run(x, load, latest):\n    counted(x, load, latest)\n    return counted(x, load, latest)\n"
ADDS_TO_ITS_OWN = (
    KERNEL
    + """
own = None


def run(x, load, latest):
    global own
    if own is None:
        own = load.clone()
    bins = counted(x, own, latest)
    load.copy_(own)
    return bins
"""
)
_REFERENCE = """
import torch


def run(x, load, latest):
    bins = (x * 8).to(torch.int32)
    load.scatter_add_(0, bins.long(), torch.ones_like(bins))
    latest.copy_(x + 1.0)
    return bins
"""
_GET_INPUTS = """
import torch


def get_inputs(config):
    generator = torch.Generator().manual_seed(config["seed"])
    x = torch.rand(config["n"], generator=generator)
    load = torch.randint(0, 1000, (8,), generator=generator, dtype=torch.int32)
    latest = torch.rand(config["n"], generator=generator)
    return [value.to(config["device"]) for value in (x, load, latest)]
"""
_CHECK = """
def memory_cap_bytes(workload):
    return 4 * workload["n"] + (1 << 20)
"""


def task(n: int = 1 << 20, mode: str = "batch") -> TaskBundle:
    """The task's files with one registered workload of n elements, timed in that mode."""
    hidden = {
        "smoke": [{"label": "smoke_n700", "n": 700}],
        "gates": [
            {"output": "bins", "gate": "exact"},
            {"output": "load", "gate": "counter", "counts": "bins"},
            {"output": "latest", "gate": "close", "atol": 1e-6, "rtol": 0.0},
        ],
        "repeat_calls": 4,
        "timing": {"mode": mode},
        "outputs": ["bins"],
        "mutated_inputs": [{"argument": "load", "effect": "adds"}, {"argument": "latest", "effect": "writes"}],
    }
    public = {
        "config.json": json.dumps({"workloads": [{"label": "large", "n": n}]}),
        "get_inputs.py": _GET_INPUTS,
        "reference.py": _REFERENCE,
    }
    return TaskBundle("counting", public, {"workloads.json": json.dumps(hidden), "check.py": _CHECK, "rules.toml": ""})
