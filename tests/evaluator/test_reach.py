"""Which memory a kernel may touch where it is interpreted, and what is told of one that touches other memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from d2k_agent.evaluator import layout
from d2k_agent.evaluator.devices.cpu import SharedMemory
from d2k_agent.evaluator.devices.lending import Lent

PROGRAM = """
import json
import os
import sys

import numpy as np
import torch
import triton
import triton.language as tl
from triton.runtime import interpreter
from triton.runtime.errors import InterpreterError

from d2k_agent.evaluator import interpreting, numerics
from d2k_agent.evaluator.attached import AttachedSet
from d2k_agent.evaluator.devices.reach import OutOfBounds, Reach

numerics.install()
interpreting.prepare()
lent = torch.zeros(1024, dtype=torch.uint8)
answers, peer = torch.zeros(64, dtype=torch.uint8), torch.zeros(64, dtype=torch.uint8)
read = lent[:64].view(torch.float32)
state = lent[256:320].view(torch.float32)
narrow = lent[512:544].view(torch.bfloat16)
reach = Reach()
reach.lend([AttachedSet([read, 3, state, narrow], lent, answers, (2,))], [lent, answers, peer])
reach.watch()
own, spare = torch.zeros(16), torch.zeros(16)


@triton.jit
def copy(x, y, n, first, B: tl.constexpr):
    o = first + tl.arange(0, B)
    tl.store(y + o, tl.load(x + o, mask=o < n), mask=o < n)


@triton.jit
def by_table(table, y):
    tl.store(y, tl.load(tl.load(table).to(tl.pointer_type(tl.float32))))


@triton.jit
def from_two(table, y):
    bases = tl.load(table + tl.arange(0, 2)).to(tl.pointer_type(tl.float32))
    tl.store(y + tl.arange(0, 2), tl.load(bases))


@triton.jit
def straddles(x):
    wide = (x.to(tl.pointer_type(tl.int8)) + 60).to(tl.pointer_type(tl.int64))
    tl.store(x, tl.load(wide).to(tl.float32))


@triton.jit
def mixed(x):
    tl.atomic_cas(x + tl.arange(0, 1), tl.zeros((1,), tl.int64), tl.full((1,), 0, tl.int8))


@triton.jit
def named(executor, B: tl.constexpr):
    tl.store(executor + tl.arange(0, B), 1.0)


@triton.jit
def block(x, y, B: tl.constexpr):
    source = tl.make_block_ptr(x, (B,), (1,), (0,), (B,), (0,))
    target = tl.make_block_ptr(y, (16,), (1,), (0,), (B,), (0,))
    tl.store(target, tl.load(source), boundary_check=(0,))


@triton.jit
def described(x, y, ROWS: tl.constexpr):
    source = tl.make_tensor_descriptor(x, (ROWS, 4), (4, 1), (ROWS, 4))
    target = tl.make_tensor_descriptor(y, (4, 4), (4, 1), (ROWS, 4))
    target.store([0, 0], source.load([0, 0]))


@triton.jit
def add(x, n):
    tl.atomic_add(x + tl.arange(0, 16), 1.0, mask=tl.arange(0, 16) < n)


@triton.jit
def swap(x, at):
    tl.atomic_cas(x + at, 0, 0)


def table(*tensors):
    return torch.tensor([tensor.data_ptr() for tensor in tensors], dtype=torch.int64)


def outside(tensor):
    address = interpreter.TensorHandle(np.array([tensor.data_ptr()], np.uint64), tl.pointer_type(tl.float32))
    value = interpreter.TensorHandle(np.ones(1, np.float32), tl.float32)
    interpreter.interpreter_builder.create_store(address, value, None, None)


def freed():
    return table(torch.zeros(1 << 20))


def swallowed():
    try:
        copy[(1,)](own, spare, 17, 0, B=32)
    except OutOfBounds:
        pass


def grown(meta):
    spare.resize_(1 << 20)
    return (1,)


def moved():
    copy[grown](spare, own, 16, 0, B=16)


for case in json.load(sys.stdin):
    print(end="", flush=True)
    if os.fork():
        os.wait()
        continue
    try:
        exec(case)
        reach.check()
        came = " ".join(["fine", *map(str, reach.written)])
    except (OutOfBounds, InterpreterError) as problem:
        came = f"{type(problem).__name__} {problem}"
    print(json.dumps([case, came]), flush=True)
    os._exit(0)
"""
INSIDE = {
    "a masked tail": "copy[(1,)](own, spare, 16, 0, B=32)",
    "lanes that are all masked": "copy[(1,)](read, read, 0, 4096, B=16)",
    "an argument": "copy[(1,)](read, own, 16, 0, B=16)",
    "state": "copy[(1,)](read, state, 16, 0, B=16)",
    "a view of an argument": "copy[(1,)](read[4:], own, 12, 0, B=16)",
    "an argument by keyword": "copy[(1,)](x=read, y=own, n=16, first=0, B=16)",
    "an argument that is called executor": "named[(1,)](executor=own, B=16)",
    "a table": "by_table[(1,)](table(spare), own)",
    "a table of arguments": "by_table[(1,)](table(state), own)",
    "a table of two tensors": "from_two[(1,)](table(spare, read), own)",
    "memory of another rank": "by_table[(1,)](table(peer), own)",
    "a block pointer": "block[(1,)](own, spare, B=16)",
    "a block pointer beyond its shape": "block[(1,)](torch.zeros(32), spare, B=32)",
    "a descriptor": "described[(1,)](own, spare, ROWS=4)",
    "an atomic": "add[(1,)](own, 16)",
    "an atomic of narrow floats": "add[(1,)](torch.zeros(16, dtype=torch.bfloat16), 16)",
    "an empty tensor": "copy[(1,)](torch.empty(0), own, 0, 0, B=16)",
}
OUTSIDE = {
    "behind the end": ("copy[(1,)](own, spare, 17, 0, B=32)", "copy: a load out of bounds of its tensors in 1 of 17"),
    "before the beginning": ("copy[(1,)](spare, own, 1, -1, B=1)", "4 bytes before the beginning of one"),
    "behind an argument": ("copy[(1,)](read, own, 17, 16, B=1)", "copy: a load out of bounds"),
    "an object": ("by_table[(1,)](torch.tensor([id(own)]), own)", "by_table: a load out of bounds"),
    "a freed tensor": ("by_table[(1,)](freed(), own)", "by_table: a load out of bounds"),
    "the room for answers": ("by_table[(1,)](table(answers), own)", "by_table: a load out of bounds"),
    "one of two": ("from_two[(1,)](table(spare, answers), own)", "a load out of bounds of its tensors in 1 of 2 lanes"),
    "a block pointer": ("block[(1,)](own, spare, B=32)", "block: a load out of bounds"),
    "a descriptor": ("described[(1,)](own, spare, ROWS=8)", "described: a load out of bounds"),
    "a store": ("copy[(1,)](torch.zeros(32), own, 32, 0, B=32)", "copy: a store out of bounds"),
    "an atomic": ("add[(1,)](torch.zeros(8), 16)", "add: an atomic out of bounds of its tensors in 8 of 16 lanes"),
    "an atomic of narrow floats": ("add[(1,)](torch.zeros(8, dtype=torch.bfloat16), 16)", "add: a load out of bounds"),
    "an exchange": ("swap[(1,)](torch.zeros(4, dtype=torch.int32), 4)", "swap: an atomic out of bounds"),
    "across the end": ("straddles[(1,)](own)", "a load out of bounds of its tensors, across the end of one"),
    "an exception that is caught": ("swallowed()", "copy: a load out of bounds"),
    "memory that a grid moved": ("moved()", "copy: a load out of bounds"),
}
MIXED = "mixed[(1,)](torch.zeros(4, dtype=torch.int32))"
WRITTEN = {
    "a store": ("copy[(1,)](read, read, 1, 0, B=16)", "fine 0"),
    "a store by a table": ("by_table[(1,)](table(own), table(read)); copy[(1,)](own, read[8:], 1, 0, B=1)", "fine 0"),
    "a block pointer": ("block[(1,)](own, read, B=16)", "fine 0"),
    "a descriptor": ("described[(1,)](own, read, ROWS=4)", "fine 0"),
    "an atomic": ("add[(1,)](read, 1)", "fine 0"),
    "an atomic of narrow floats": ("add[(1,)](narrow, 1)", "fine 3"),
    "two of them": ("add[(1,)](narrow, 1); add[(1,)](read, 1)", "fine 0 3"),
    "none of its lanes": ("add[(1,)](read, 0)", "fine"),
    "no launch at all": ("outside(read)", "fine 0"),
    "an earlier call": ("add[(1,)](read, 1); reach.begin()", "fine"),
}


@pytest.fixture(scope="module")
def came(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What each case came to. One process, since Triton is imported for seconds, which forks for each of them."""
    program = tmp_path_factory.mktemp("reach") / "program.py"
    program.write_text(PROGRAM)
    cases = [MIXED, *INSIDE.values(), *(case for case, _ in (*OUTSIDE.values(), *WRITTEN.values()))]
    root = str(Path(__file__).resolve().parents[2])
    done = subprocess.run(
        [sys.executable, str(program)],
        check=True,
        input=json.dumps(cases),
        env={"PATH": os.environ["PATH"], "PYTHONPATH": root, "TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    return dict(json.loads(line) for line in done.stdout.splitlines())


@pytest.mark.parametrize("case", INSIDE.values(), ids=INSIDE)
def test_a_kernel_may_touch_what_is_alive(came: dict[str, str], case: str) -> None:
    assert came[case] == "fine"


@pytest.mark.parametrize(("case", "told"), OUTSIDE.values(), ids=OUTSIDE)
def test_a_kernel_that_reaches_elsewhere_is_named(came: dict[str, str], case: str, told: str) -> None:
    assert came[case].startswith("OutOfBounds kernel ") and told in came[case]
    assert "mask the lanes that lie beyond" in came[case]


def test_operands_of_an_exchange_are_of_one_size(came: dict[str, str]) -> None:
    """The interpreter's library would reach by the larger one, and past the smaller one."""
    assert "must be of the pointer's type" in came[MIXED]


@pytest.mark.parametrize(("case", "told"), WRITTEN.values(), ids=WRITTEN)
def test_an_argument_that_may_only_be_read_counts_as_written_at_once(
    came: dict[str, str], case: str, told: str
) -> None:
    assert came[case] == told


def test_what_was_written_travels_with_an_answer() -> None:
    answer = layout.AnswerHeader((), 1, 2, 3, "", True, (0, 5, 63))
    assert layout.unpack_answer(layout.pack_answer(answer)) == answer


def test_a_set_says_which_of_its_arguments_may_change() -> None:
    lent = Lent(SharedMemory, [torch.ones(4), 3, torch.ones(4)], [], [2])
    shared, _ = lent.share()
    lent.close()
    assert shared["mutated"] == [2]
