"""The process that the profiler watches: it confines itself, then runs the candidate, once of it in a named range.

The profiler's library enters this process with CUDA and speaks to its host over a socket that confinement would
refuse. So CUDA starts first and one kernel of our own is profiled, which brings in all that the library loads late;
then the thread confines itself, and only then is anything of the candidate imported. The library's own threads stay
unconfined: code that reaches them natively is what the static rules refuse.
"""

from __future__ import annotations

import json
import os
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from d2k_agent.contract.frames import write_frame
from d2k_agent.evaluator.candidate import MAX_ERROR_CHARS, describe, enter, load_solution

READY, PROFILED = "d2k_ready", "d2k_run"
"""NVTX ranges: around the kernel of our own, and around the call of run() that is profiled."""

# Frames of the report.
UNABLE, REFUSED, CONFINED, BROKEN_TASK = b"N", b"X", b"R", b"T"
STAGE, RAISED, DONE = b"S", b"E", b"D"

LOADING, WARMING, PROFILING = "importing solution.py", "calling run() to warm up", "the profiled call of run()"
_L2_FLUSH_BYTES = 256 << 20


def main(data: bytes) -> None:
    """Carry out one order (JSON) and tell how far it came in frames in the file `order["report"]`."""
    order: dict[str, Any] = json.loads(data)
    report = os.open(order["report"], os.O_WRONLY | os.O_CLOEXEC)
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):  # the profiler's table goes to the same place: nothing of the candidate's may
        os.dup2(null, standard)

    def tell(kind: bytes, text: str = "") -> None:
        write_frame(report, kind, text.encode("utf-8", "replace"))

    device = str(order["device"])
    try:
        _start(device)
    except Exception as problem:  # noqa: BLE001 - before the candidate: whatever CUDA raises is the machine's
        tell(UNABLE, f"CUDA does not start under this tool; it needs a GPU ({_words(problem)})")
        return
    try:
        measures = enter(order)
    except OSError as problem:
        tell(REFUSED, f"no isolation for a candidate: {problem}")
        return
    tell(CONFINED, "+".join(measures))
    try:
        calls = _arguments(order, device)
    except torch.OutOfMemoryError as problem:
        tell(UNABLE, f"the GPU has no room for the inputs ({_words(problem)}); free some memory")
        return
    except (Exception, SystemExit) as problem:  # noqa: BLE001 - the task's author wrote it: its failures are the task's
        tell(BROKEN_TASK, f"get_inputs.py raised {_words(problem)}")
        return
    try:
        _run(order, device, calls, lambda stage: tell(STAGE, stage))
    except BaseException as problem:  # noqa: BLE001 - whatever a candidate raises, SystemExit included, is its answer
        tell(RAISED, json.dumps(describe(problem)))
        return
    tell(DONE)


def _start(device: str) -> None:
    """Start CUDA and have one kernel of our own profiled."""
    if device == "cuda":
        torch.cuda.init()
        with _range(device, READY):
            torch.ones(1024, device=device)
            torch.cuda.synchronize()


def _arguments(order: dict[str, Any], device: str) -> list[list[Any]]:
    """The arguments of run() for each workload, from the text of get_inputs.py and a seed that is no secret."""
    module = types.ModuleType("get_inputs")
    exec(compile(order["generator"], "get_inputs.py", "exec"), module.__dict__)
    return [list(module.get_inputs({**workload, "seed": 0, "device": device})) for workload in order["workloads"]]


def _run(order: dict[str, Any], device: str, calls: list[list[Any]], stage: Callable[[str], None]) -> None:
    """Call run() on each list of arguments, `warm_up` times before the call that counts."""
    stage(LOADING)
    run = load_solution(os.path.join(order["scratch"], "solution.py")).run
    for arguments in calls:
        stage(WARMING)
        for _ in range(int(order["warm_up"])):
            run(*arguments)
            _synchronise(device)
        if device == "cuda" and order["flush"]:
            # The caches hold nothing of the last call, as between sets of inputs when calls are timed. Read, not
            # written: what would have to go back to DRAM first would count as the candidate's traffic.
            torch.empty(_L2_FLUSH_BYTES, dtype=torch.uint8, device=device).max()
        _synchronise(device)
        stage(PROFILING)
        with _range(device, PROFILED):
            run(*arguments)
            _synchronise(device)


@contextmanager
def _range(device: str, name: str) -> Iterator[None]:
    """An NVTX range on a GPU. It ends with the process where a call raises."""
    if device != "cuda":
        yield
        return
    torch.cuda.nvtx.range_push(name)
    yield
    torch.cuda.nvtx.range_pop()


def _words(problem: BaseException) -> str:
    return f"{type(problem).__name__}: {str(problem)[:MAX_ERROR_CHARS]}"


def _synchronise(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()
