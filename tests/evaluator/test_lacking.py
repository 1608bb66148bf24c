"""Device libraries, which the interpreter has none of, are named where a kernel calls one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SOLUTION = """
import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice
from triton.language.extra.cuda import smid
from triton.language.extra.libdevice import exp


@triton.jit
def kernel(x, BLOCK: tl.constexpr):
    o = tl.arange(0, BLOCK)
    tl.store(x + o, 1.0 + CALL)


def run():
    x = torch.ones(16)
    kernel[(1,)](x, BLOCK=16)
    return x
"""
PROGRAM = """
import sys

from triton.runtime.errors import InterpreterError

from d2k_agent.evaluator.candidate import describe, load_solution

run = load_solution(sys.argv[1]).run
try:
    print(run()[0].item())
except InterpreterError as problem:
    print(describe(problem)["text"])
"""
CALLS = {
    "libdevice.exp(tl.load(x + o))": "extra.libdevice.exp",
    "exp(tl.load(x + o))": "extra.libdevice.exp",
    "tl.extra.cuda.libdevice.exp(tl.load(x + o))": "extra.cuda.libdevice.exp",
    "smid()": "extra.cuda.smid",
    "tl.extra.cuda.num_warps()": "extra.cuda.num_warps",
}


def told(call: str, tmp_path: Path) -> str:
    solution = tmp_path / "solution.py"
    solution.write_text(SOLUTION.replace("CALL", call))
    root = str(Path(__file__).resolve().parents[2])
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": root, "TRITON_INTERPRET": "1"}
    command = [sys.executable, "-c", PROGRAM, str(solution)]
    done = subprocess.run(command, check=False, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize(("call", "name"), CALLS.items(), ids=CALLS)
def test_a_device_library_is_told_as_what_only_a_gpu_has(call: str, name: str, tmp_path: Path) -> None:
    answer = told(call, tmp_path)
    assert f"{name} not supported in interpreter mode" in answer
    assert answer.endswith("which lacks this: only a GPU can judge it")


def test_what_the_interpreter_has_is_left_alone(tmp_path: Path) -> None:
    assert told("tl.exp(0.0 * tl.load(x + o))", tmp_path) == "2.0"
