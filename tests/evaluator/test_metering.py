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

from d2k_agent.evaluator.attached import AttachedSet
from d2k_agent.evaluator.devices.inside import inside
from d2k_agent.evaluator.metering import CallMeter, MeteredCalls
from d2k_agent.evaluator.rules import allow_list
from d2k_agent.evaluator.timing.timed import TimedCalls

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


def test_a_fill_casts_no_more_than_a_copy_does() -> None:
    whole, real = torch.ones(4, dtype=torch.int32), torch.empty(4)
    for fill in (lambda: real.fill_(whole[0]), lambda: real.__setitem__(slice(0, 2), whole[0])):
        with CallMeter() as meter:
            fill()
        assert meter.foreign == "fill_ with a change of dtype"
    with CallMeter() as meter:
        real.fill_(3), real.fill_(real[0]), whole.fill_(True), real.zero_()
        real[:2], real[3], whole[:2], whole[:] = 1, True, 2, whole[1]
    assert meter.foreign == ""


TRIES: dict[str, Callable[[torch.Tensor], object]] = {
    "torch.as_strided": lambda x: torch.as_strided(x, (2,), (1,)),
    "torch.broadcast_to": lambda x: torch.broadcast_to(x, (5, 4, 4)),
    "torch.movedim": lambda x: torch.movedim(x, 0, 1),
    "torch.narrow": lambda x: torch.narrow(x, 0, 0, 1),
    "torch.permute": lambda x: torch.permute(x, (1, 0)),
    "torch.reshape": lambda x: torch.reshape(x.t(), (-1,)),
    "torch.select": lambda x: torch.select(x, 0, 0),
    "torch.unflatten": lambda x: torch.unflatten(x, 1, (2, 2)),
    "torch.unsqueeze": lambda x: torch.unsqueeze(x, 0),
    "torch.tensor": lambda _: torch.tensor([1.0, 2.0], device="cpu"),
    "torch.empty_strided": lambda _: torch.empty_strided((2,), (1,)),
    "torch.full": lambda _: torch.full((2,), 0.5),
    "torch.full_like": lambda x: torch.full_like(x, 0.5),
    "copy_": lambda x: x.copy_(torch.empty(4, 4).t()),
    "fill_": lambda x: x.fill_(0.5),
    "expand": lambda x: x.expand(3, 4, 4),
    "view": lambda x: x.view(torch.int32).view(16),
    "to": lambda x: x.to("cpu", copy=True),
    "new_empty_strided": lambda x: x.new_empty_strided((2,), (1,)),
    "new_full": lambda x: x.new_full((2,), 0.5),
    "new_tensor": lambda x: x.new_tensor([1.0, 2.0]),
}
"""How to call what takes more than a tensor; a method stands here where it is called otherwise than the function."""
FEW = {
    **dict.fromkeys(("split", "chunk", "tensor_split"), (2,)),
    **dict.fromkeys(("swapaxes", "swapdims", "transpose"), (0, 1)),
    **dict.fromkeys(("empty", "zeros", "ones", "new_empty", "new_zeros", "new_ones"), ((2, 2),)),
}
ALLOWED_NAMES = sorted(
    {f"torch.{name}" for name in allow_list.ALLOCATION | allow_list.VIEWS | {"clone", "numel", "is_floating_point"}}
    | {name for name in allow_list.TENSOR if hasattr(torch.Tensor, name)} - {"cuda"}
)
"""Names of tensors and of torch that the static rules allow; a GPU is not there to be copied to."""


@pytest.mark.parametrize("name", ALLOWED_NAMES)
def test_what_the_static_rules_allow_the_meter_knows(name: str) -> None:
    plain, x = name.removeprefix("torch."), torch.ones(4, 4)
    known = TRIES.get(name) or TRIES.get(f"torch.{name}")
    others = (x,) if plain in ("expand_as", "view_as", "reshape_as") else FEW.get(plain, ())
    with CallMeter() as meter:
        if known is not None:
            known(x)
        elif name.startswith("torch."):
            made = plain in ("empty", "zeros", "ones")
            getattr(torch, plain)(*(() if made else (x,)), *others)
        else:
            value = getattr(x, name)
            value(*others) if callable(value) else None
    assert meter.foreign == ""


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


def test_handing_outputs_over_is_no_copy_of_a_timed_call() -> None:
    x = torch.ones(64)
    given = AttachedSet([x], torch.zeros(0, dtype=torch.uint8), torch.zeros(1 << 12, dtype=torch.uint8))
    calls = TimedCalls(torch.empty_like, [given], inside("cpu"))
    calls.handle("steps", {"calls": 1}, [])
    assert calls.handle("give", {"set": 0}, [])[0] == b"D"
    assert calls.metered == MeteredCalls()
