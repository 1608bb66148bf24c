"""What the meter of a call sees: reads on the host and what a launch runs of a candidate's, but no kernel's work."""

from __future__ import annotations

import io
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from d2k_agent.evaluator.metering import CallMeter

LAUNCH = """
import sys

import torch
import triton
import triton.language as tl

from d2k_agent.evaluator import interpreting, numerics
from d2k_agent.evaluator.metering import CallMeter

numerics.install()
interpreting.prepare()


@triton.jit
def _double(x, BLOCK: tl.constexpr):
    o = tl.arange(0, BLOCK)
    tl.store(x + o, tl.load(x + o) * 2.0)


x, made = torch.ones(16), []


@triton.jit
def _narrow(x, OPTION: tl.constexpr):
    o = tl.arange(0, 16)
    if OPTION.on:
        tl.store(x + o, tl.load(x + o).to(tl.float8e5).to(tl.float32) * 2.0)


@triton.jit
def _spare(x, other):
    o = tl.arange(0, 16)
    tl.store(x + o, tl.load(x + o) * 2.0)


def computing(*_, **__):
    made.append(x * 3.0)
    return (1,)


class Argument:
    @property
    def data_ptr(self):
        computing()
        raise AttributeError

    @property
    def on(self):
        return computing()


class Plain:
    on = True


def one(meta):
    return (triton.cdiv(16, meta["BLOCK"]),)


def launch():
    _double[computing if sys.argv[1] == "grid" else one](x, BLOCK=16)


if sys.argv[1] == "hook":
    _double.add_pre_run_hook(computing)
if sys.argv[1] == "argument":
    launch = lambda: _spare[(1,)](x, Argument())
if sys.argv[1] == "kernel":
    launch = lambda: _narrow[(1,)](x, Argument())
if sys.argv[1] == "narrow floats":
    launch = lambda: _narrow[(1,)](x, Plain())
with CallMeter() as meter:
    launch()
    after = torch.empty(4)
assert bool((x == 2.0).all())
print(meter.foreign, meter.peak_bytes, len(made))
"""


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
@pytest.mark.parametrize(
    ("read", "name"),
    [
        *((read, "_local_scalar_dense") for read in (lambda x: float(x[0]), lambda x: x[0].item(), bool)),
        (lambda x: x.tolist(), "tolist"),
        (lambda x: x.numpy(), "numpy"),
        (np.asarray, "__array__"),
        (np.from_dlpack, "__dlpack__"),
        (str, "__repr__"),
        (lambda x: f"{x}", "__format__"),
        (lambda x: bytes(x.untyped_storage()), "untyped_storage"),
        (lambda x: x.storage(), "storage"),
        (lambda x: x.apply_(float), "apply_"),
        (lambda x: x.map_(x, max), "map_"),
        (torch._tensor_str._str, "__format__"),
        (pickle.dumps, "untyped_storage"),
        (lambda x: torch.save(x, io.BytesIO()), "untyped_storage"),
    ],
)
def test_a_value_read_on_the_host_is_foreign(read: Callable[[torch.Tensor], object], name: str) -> None:
    x = torch.ones(1)
    with CallMeter() as meter:
        read(x)
    assert meter.foreign == name


def test_an_operator_that_fails_is_foreign_all_the_same() -> None:
    with pytest.raises(RuntimeError, match="shapes"), CallMeter() as meter:
        torch.ones(2, 3).new_ones(2, 3) @ torch.ones(2, 3)
    assert meter.foreign == "mm"


def test_a_meter_does_not_import_the_compiler() -> None:
    # More than a second in every candidate's process.
    program = (
        "import sys, torch; from d2k_agent.evaluator.metering import CallMeter\n"
        "with CallMeter(): torch.empty(4).fill_(0.0)\n"
        "print('torch._dynamo' in sys.modules)"
    )
    root = str(Path(__file__).resolve().parents[2])
    command, environment = [sys.executable, "-c", program], {"PATH": os.environ["PATH"], "PYTHONPATH": root}
    done = subprocess.run(command, check=True, env=environment, capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "False"


def test_glue_is_not_foreign() -> None:
    x = torch.ones(4, 4)
    with CallMeter() as meter:
        torch.empty_like(x).copy_(x.t())
        assert (x.shape, x.stride(), x.dtype, x.data_ptr() % 16, x.is_cuda) == ((4, 4), (4, 1), torch.float32, 0, False)
    assert (meter.foreign, meter.peak_bytes, meter.copied_bytes) == ("", 64, 64)


@pytest.mark.parametrize(
    ("where", "said"),
    [
        # 16 bytes are the tensor that was made after the launch: the meter counts again.
        ("nowhere", "16 0"),
        ("grid", "mul 80 1"),
        ("hook", "mul 80 1"),
        ("argument", "mul 80 1"),
        ("kernel", "mul 80 1"),
        ("narrow floats", "16 0"),
    ],
)
def test_what_a_launch_runs_of_the_candidate_is_metered_and_the_kernels_work_is_not(
    where: str, said: str, tmp_path: Path
) -> None:
    program = tmp_path / "launch.py"
    program.write_text(LAUNCH)
    root = str(Path(__file__).resolve().parents[2])
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": root, "TRITON_INTERPRET": "1"}
    command = [sys.executable, program, where]
    done = subprocess.run(command, check=False, env=environment, capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == said, done.stderr
