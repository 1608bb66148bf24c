"""A task for several ranks, for tests: y is twice the x of the rank before. A call takes milliseconds."""

from __future__ import annotations

import json

from d2k_agent.contract import TaskBundle

KERNELS = """
import time

import torch
import triton
import triton.language as tl


@triton.jit
def _await(word, least):
    seen = tl.atomic_add(word, 0, sem="acquire", scope="sys")
    while seen < least:
        seen = tl.atomic_add(word, 0, sem="acquire", scope="sys")


@triton.jit
def _push(x, ws_ptrs, sig, sig_ptrs, to, n, half, GUARDED: tl.constexpr, RELAXED: tl.constexpr, BLOCK: tl.constexpr):
    epoch = tl.load(sig)
    if GUARDED:
        _await(sig + 2, epoch - 1)
    o = tl.arange(0, BLOCK)
    into = (tl.load(ws_ptrs + to) + (epoch % 2) * half).to(tl.pointer_type(tl.float32))
    tl.store(into + o, tl.load(x + o, mask=o < n), mask=o < n)
    if RELAXED:
        tl.atomic_xchg(tl.load(sig_ptrs + to).to(tl.pointer_type(tl.int32)) + 1, epoch + 1, sem="relaxed", scope="sys")


@triton.jit
def _flag(sig, sig_ptrs, to):
    word = tl.load(sig_ptrs + to).to(tl.pointer_type(tl.int32)) + 1
    tl.atomic_xchg(word, tl.load(sig) + 1, sem="release", scope="sys")


@triton.jit
def _arrive(sig):
    _await(sig + 1, tl.load(sig) + 1)


@triton.jit
def _take(y, ws, sig, sig_ptrs, before, n, half, BLOCK: tl.constexpr):
    epoch = tl.load(sig)
    o = tl.arange(0, BLOCK)
    own = (ws + (epoch % 2) * half).to(tl.pointer_type(tl.float32))
    tl.store(y + o, 2.0 * tl.load(own + o, mask=o < n), mask=o < n)
    tl.debug_barrier()
    word = tl.load(sig_ptrs + before).to(tl.pointer_type(tl.int32)) + 2
    tl.atomic_xchg(word, epoch + 1, sem="release", scope="sys")
    tl.store(sig, epoch + 1)


def neighbours(comm):
    return (comm.rank + 1) % comm.world, (comm.rank - 1) % comm.world


def push(x, comm, guarded=True, halves=2, relaxed=False):
    half, to = comm.ws.numel() // 2 if halves == 2 else 0, neighbours(comm)[0]
    _push[(1,)](
        x, comm.ws_ptrs, comm.sig, comm.sig_ptrs, to, x.numel(), half, GUARDED=guarded, RELAXED=relaxed, BLOCK=128
    )


def flag(comm):
    _flag[(1,)](comm.sig, comm.sig_ptrs, neighbours(comm)[0])


def arrive(comm):
    _arrive[(1,)](comm.sig)


def linger(comm):
    if comm.rank == 0:
        time.sleep(0.25)


def take(x, comm, halves=2):
    y = torch.empty_like(x)
    half = comm.ws.numel() // 2 if halves == 2 else 0
    _take[(1,)](y, comm.ws, comm.sig, comm.sig_ptrs, neighbours(comm)[1], x.numel(), half, BLOCK=128)
    return y

"""


def _source(*lines: str) -> str:
    return KERNELS + "\n    ".join(["def run(x, comm):", *lines]) + "\n"


_HONEST = ("push(x, comm)", "flag(comm)", "arrive(comm)", "return take(x, comm)")


def _in_later_calls(line: str) -> str:
    """Honest but for a line in calls without a pause: five with inputs of their own and one repeated come before."""
    calls = ("global calls", "calls += 1", "if calls > 7:", f"    {line}")
    return _source(*calls, *_HONEST).replace("def run(", "calls = 0\n\n\ndef run(")


HONEST = _source(*_HONEST)
SILENT = _source("take(x, comm)", "return take(x, comm)")
"""No communication at all."""
FLAG_FIRST = _source("flag(comm)", "push(x, comm)", "arrive(comm)", "return take(x, comm)")
RELAXED = _source("push(x, comm, relaxed=True)", "arrive(comm)", "return take(x, comm)")
"""The flag does not release what was stored before it, as only a GPU would show, or who is held up in between."""
NEVER_WAITS = _source("push(x, comm)", "flag(comm)", "return take(x, comm)")
READS_LATE = _source("push(x, comm)", "flag(comm)", "arrive(comm)", "linger(comm)", "return take(x, comm)")
UNGUARDED = _source(
    "push(x, comm, guarded=False, halves=1)", "flag(comm)", "arrive(comm)", "linger(comm)", "return take(x, comm, 1)"
)
"""Only calls that follow each other show it: the next one's data overwrite what rank 0 has yet to read."""
GIVES_ITS_PAD = _source(
    *_HONEST[:3],
    "pad = comm.sig[1024 : 1024 + x.numel()].view(torch.float32)",
    "pad.copy_(take(x, comm))",
    "return pad",
)
"""Outputs lie in what the evaluator lends, at the same place in each call."""
RANK_0_SENDS_NOTHING = _source(
    "if comm.rank:", "    push(x, comm)", "    flag(comm)", "arrive(comm)", "return take(x, comm)"
)
ALL_WAIT = _source("arrive(comm)", *_HONEST)
ALL_WAIT_LATER = _in_later_calls("arrive(comm)")
RANK_1_ENDS = "import os\n" + _source("if comm.rank == 1:", "    os._exit(3)", *_HONEST)
OVERRUN = _source(
    "behind = comm.ws.as_strided((1,), (1,), comm.ws.storage_offset() + comm.ws.numel())", "behind.fill_(1)", *_HONEST
)
OVERRUN_LATER = _in_later_calls("comm.ws.as_strided((1,), (1,), comm.ws.storage_offset() + comm.ws.numel()).fill_(1)")
RAISES_LATER = (
    KERNELS
    + """
calls = 0


def run(x, comm):
    global calls
    calls += x.numel() == 32
    if calls > 2:  # two calls of the variation come before those without a pause
        raise ValueError("these are the hidden numbers")
    push(x, comm)
    flag(comm)
    arrive(comm)
    return take(x, comm)
"""
)
BY_TURNS = (
    KERNELS
    + """
calls = 0


def run(x, comm):
    global calls
    calls += 1
    push(x, comm)
    flag(comm)
    arrive(comm)
    y = take(x, comm)
    return torch.zeros_like(y) if calls in (2, 4, 5) else y
"""
)
"""Wrong when it is checked first; then right, as if the device had been idle, and wrong again; and wrong once more."""
SLOW_TO_LOAD = "import time\n\ntime.sleep(2.0)\n" + _source("raise ValueError('as it is meant to')")
DOES_NOT_LOAD = "import nothing_like_it\n" + HONEST
REMEMBERS_UNTIL_POISONED = (
    KERNELS
    + """
kept = {}


@triton.jit
def _know(x, y, known, ws, ws_ptrs, sig, sig_ptrs, to, before, n, mark_at, WORK: tl.constexpr, BLOCK: tl.constexpr):
    mark = (ws + mark_at).to(tl.pointer_type(tl.int32))
    if tl.load(mark) == -1:
        tl.store(mark, 7)
        tl.store(sig + 3, tl.load(sig + 3) + 1)
    if tl.load(known) != tl.load(sig + 3):
        for i in range(WORK):
            tl.load(sig + 100)
        o = tl.arange(0, BLOCK)
        sent = tl.load(sig + 4) + 1
        _await(sig + 2, sent - 1)
        into = tl.load(ws_ptrs + to).to(tl.pointer_type(tl.float32))
        tl.store(into + o, tl.load(x + o, mask=o < n), mask=o < n)
        tl.store(sig + 4, sent)
        tl.atomic_xchg(tl.load(sig_ptrs + to).to(tl.pointer_type(tl.int32)) + 1, sent, sem="release", scope="sys")
        _await(sig + 1, sent)
        own = ws.to(tl.pointer_type(tl.float32))
        tl.store(y + o, 2.0 * tl.load(own + o, mask=o < n), mask=o < n)
        tl.atomic_xchg(tl.load(sig_ptrs + before).to(tl.pointer_type(tl.int32)) + 2, sent, sem="release", scope="sys")
        tl.store(known, tl.load(sig + 3))


def run(x, comm):
    place = x.data_ptr()
    if place not in kept:
        kept[place] = (torch.empty_like(x), torch.zeros((1,), dtype=torch.int32, device=x.device))
    y, known = kept[place]
    to, before = neighbours(comm)
    mark_at = comm.ws.numel() - 4
    _know[(1,)](
        x, y, known, comm.ws, comm.ws_ptrs, comm.sig, comm.sig_ptrs, to, before, x.numel(), mark_at, WORK=20, BLOCK=128
    )
    return y
"""
)
"""It works where it finds no mark of its own in the workspace, or came to a set for the first time since then."""
BY_GATHERING = "def run(x, comm):\n    return 2.0 * comm.all_gather(x)[(comm.rank - 1) % comm.world]\n"

_GET_INPUTS = """
import torch


def get_inputs(config):
    torch.manual_seed(config["seed"])
    return [torch.randn(config["n"], device=config["device"])]


def workspace_bytes(config):
    return 8 * config["n"]
"""
_CHECK = """
import torch


def zeros(inputs, generator):
    return [[torch.zeros_like(x)] for x, in inputs]


def memory_cap_bytes(workload):
    return 4 * workload["n"] + 4096


def copy_budget_bytes(workload):
    return 4 * workload["n"]


def link_bytes(workload):
    return 4 * workload["n"]
"""


def task(**changes: object) -> TaskBundle:
    """The task's files; `changes` of config.json."""
    public = {
        "config.json": json.dumps({"ranks": [2, 3], "workloads": [{"label": "large", "n": 100}], **changes}),
        "get_inputs.py": _GET_INPUTS,
        "reference.py": BY_GATHERING,
    }
    hidden = {
        "workloads.json": json.dumps(
            {
                "smoke": [{"label": "smoke_n64", "n": 64}],
                "gates": [{"output": "y", "gate": "exact"}],
                "variations": [{"name": "hidden.zeros", "vary": "zeros", "workload": {"label": "zeros_n32", "n": 32}}],
                "repeat_calls": 5,
                "outputs": ["y"],
            }
        ),
        "check.py": _CHECK,
        "rules.toml": '[attributes]\nallow = ["rank", "world", "ws", "ws_ptrs", "sig", "sig_ptrs", "max_ctas"]\n',
    }
    return TaskBundle("shifting", public, hidden)
