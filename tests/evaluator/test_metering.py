"""What the meter of a call sees: reads on the host and what a launch calls on run()'s side, but no kernel's inside."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from d2k_agent.evaluator.metering import CallMeter

LAUNCH = """
import sys

import torch
import triton
import triton.language as tl

from d2k_agent.evaluator import interpreting
from d2k_agent.evaluator.metering import CallMeter

interpreting.prepare()


@triton.jit
def _double(x, BLOCK: tl.constexpr):
    o = tl.arange(0, BLOCK)
    tl.store(x + o, tl.load(x + o) * 2.0)


x, made = torch.ones(16), []


def computing(*_, **__):
    made.append(x * 3.0)
    return (1,)


if sys.argv[1] == "hook":
    _double.add_pre_run_hook(computing)
with CallMeter() as meter:
    _double[computing if sys.argv[1] == "grid" else lambda meta: (triton.cdiv(16, meta["BLOCK"]),)](x, BLOCK=16)
    after = torch.empty(4)
assert bool((x == 2.0).all())
print(meter.foreign, meter.peak_bytes, len(made))
"""


@pytest.mark.parametrize("read", [lambda x: float(x[0]), lambda x: x[0].item(), bool])
def test_a_value_read_on_the_host_is_foreign(read: Callable[[torch.Tensor], object]) -> None:
    x = torch.ones(1)
    with CallMeter() as meter:
        read(x)
    assert meter.foreign == "_local_scalar_dense"


def test_glue_is_not_foreign() -> None:
    x = torch.ones(4, 4)
    with CallMeter() as meter:
        torch.empty_like(x).copy_(x.t())
    assert (meter.foreign, meter.peak_bytes, meter.copied_bytes) == ("", 64, 64)


@pytest.mark.parametrize(
    ("where", "said"),
    [
        # 16 bytes are the tensor that was made after the launch: the meter counts again.
        ("nowhere", "16 0"),
        ("grid", "mul 80 1"),
        ("hook", "mul 80 1"),
    ],
)
def test_what_a_launch_calls_on_the_host_is_metered_and_the_kernel_is_not(
    where: str, said: str, tmp_path: Path
) -> None:
    program = tmp_path / "launch.py"
    program.write_text(LAUNCH)
    root = str(Path(__file__).resolve().parents[2])
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": root, "TRITON_INTERPRET": "1"}
    command = [sys.executable, program, where]
    done = subprocess.run(command, check=False, env=environment, capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == said, done.stderr
