"""A task for tests of the evaluator: y = factor * x. Small, so that a job takes a second."""

from __future__ import annotations

import json
from typing import Any

from d2k_agent.contract import EvaluatorJob, JobKind, Limits, TaskBundle

KERNEL = """
import torch
import triton
import triton.language as tl


@triton.jit
def _scale(x, y, n, factor, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + o, tl.load(x + o, mask=o < n) * factor, mask=o < n)


def scaled(x, factor):
    y = torch.empty_like(x)
    n = x.numel()
    _scale[(triton.cdiv(n, 128),)](x, y, n, factor, BLOCK=128)
    return y

"""

TWICE = (
    KERNEL
    + """
def run(x, factor):
    y = scaled(x, 1.0)
    _scale[(triton.cdiv(y.numel(), 128),)](y, y, y.numel(), factor, BLOCK=128)
    return y
"""
)
"""Two launches over the same numbers."""

HONEST = KERNEL + "def run(x, factor):\n    return scaled(x, factor)\n"


def after_calls(count: int, line: str) -> str:
    """A source that does one more thing in each call behind the first `count` ones."""
    return f"""{KERNEL}
import os

calls = 0


def run(x, factor):
    global calls
    calls += 1
    if calls > {count}:
        {line}
    return scaled(x, factor)
"""


_GET_INPUTS = """
import torch


def get_inputs(config):
    torch.manual_seed(config["seed"])
    return [torch.randn(config["n"], device=config["device"]), 3.0]
"""

_CHECK = """
import torch


def zeros(inputs, generator):
    return [torch.zeros_like(inputs[0]), inputs[1]]


def memory_cap_bytes(workload):
    return 4 * workload["n"] + (1 << 20)


def copy_budget_bytes(workload):
    return 4 * workload["n"]
"""


def task(n: int = 1 << 20, mode: str = "batch", **changes: str) -> TaskBundle:
    """The task's files with one registered workload of n elements, timed in that mode.

    `changes` replaces public files by name (dots as underscores).
    """
    public = {
        "config.json": json.dumps({"workloads": [{"label": "large", "n": n}]}),
        "get_inputs.py": _GET_INPUTS,
        "reference.py": "def run(x, factor):\n    return x * factor\n",
    }
    public |= {name.replace("_py", ".py"): text for name, text in changes.items()}
    hidden = {
        "workloads.json": json.dumps(
            {
                "smoke": [{"label": "smoke_n1000", "n": 1000}],
                "gates": [{"output": "y", "gate": "rel_norm", "limit": 1e-6}],
                "variations": [
                    {"name": "hidden.zeros", "vary": "zeros", "workload": {"label": "zeros_n300", "n": 300}}
                ],
                "repeat_calls": 12,
                "timing": {"mode": mode},
                "outputs": ["y"],
            }
        ),
        "check.py": _CHECK,
        "rules.toml": "",
    }
    return TaskBundle("scaling", public, hidden)


def job(candidate: str, limits: Limits | None = None, **changes: Any) -> EvaluatorJob:
    """A job on the task with a fresh seed."""
    return EvaluatorJob(
        kind=changes.pop("kind", JobKind.EVALUATE),
        task=changes.pop("task", None) or task(),
        candidate=candidate,
        seed="5e" * 32,
        target=changes.pop("target", "b200"),
        limits=limits or Limits(call_s=20.0, compile_s=60.0),
        **changes,
    )
