"""One candidate on one target, without a GPU: every launch of run() at the registered shapes, modelled.

Runs in a confined process of its own that interprets kernels, since it executes the candidate, in its main thread. It
says nothing about correctness, and what it says about speed is a model.
"""

from __future__ import annotations

import importlib.util
import resource
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from d2k_agent.contract.modelled import MOST_LAUNCHES, ModelledLatency, ModelledWorkload
from d2k_agent.evaluator.alarm import PROCESSOR, Alarm
from d2k_agent.evaluator.compilation.fake_cuda import HostTensors, torch_claims
from d2k_agent.evaluator.compilation.targets import find_target
from d2k_agent.evaluator.metering import HOST_READS, CallMeter
from d2k_agent.evaluator.modelling import builder, loops
from d2k_agent.evaluator.modelling.counting import Meter
from d2k_agent.evaluator.modelling.launching import Launches
from d2k_agent.evaluator.modelling.lazy import LazyFloats, NotModelled
from d2k_agent.evaluator.modelling.roofline import machine_of
from d2k_agent.evaluator.solution import NoRun, run_of

MEMORY_BYTES = 4 << 30
"""What the process may take beyond what it has: contents of integers and of small tensors."""
_REASON_CHARS = 500

Call = tuple[str, Callable[[str], Sequence[Any]]]
"""A workload's label, and what makes the arguments of run() on a device given by name."""


class TimeIsUp(BaseException):
    """No Exception, so that no candidate takes it for its own."""


def model_candidate(path: str, calls: Sequence[Call], target: str, limit_s: float) -> ModelledLatency:
    """What the model says of the candidate at `path` on `target`, within `limit_s` seconds of processor time.

    What does not go is a workload that is not modelled, with the reason. Must be called once, in the main thread of a
    process that interprets kernels and can be thrown away. Raises ValueError for a target of which too little is known.
    """
    began, until = time.monotonic(), time.process_time() + limit_s
    gpu = find_target(target)
    machine = machine_of(gpu)
    meter, floats = Meter(), LazyFloats()
    builder.install(meter)
    loops.install(meter)
    launches = Launches(meter, floats, machine)
    launches.install()
    launches.until = until
    done: list[ModelledWorkload] = []
    with torch_claims(gpu), HostTensors(), floats, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run: Callable[..., Any] | None = None
        for label, make in calls:
            try:
                # Other work of the machine does not count: how a candidate is ranked must not depend on it.
                with Alarm(until - time.process_time(), TimeIsUp, PROCESSOR):
                    launches.begin()
                    arguments = _made(make)
                    run = run or _load(path)
                    modelled = _modelled(label, run, arguments, launches)
                done.append(modelled)
            except (Exception, SystemExit, TimeIsUp, NotModelled) as problem:  # noqa: BLE001 - news for the author
                done.append(ModelledWorkload(label, None, launches.found, _told(problem, limit_s, path)))
    return ModelledLatency(target, tuple(done), machine.basis, round(time.monotonic() - began, 3))


def _made(make: Callable[[str], Sequence[Any]]) -> list[Any]:
    try:
        return list(make("cuda"))
    except Exception as problem:  # the task's author wrote this code: its failures are the task's
        if _out_of_memory(problem):
            raise
        raise NotModelled(f"its arguments cannot be made without a GPU: {problem}") from problem


def _modelled(label: str, run: Callable[..., Any], arguments: list[Any], launches: Launches) -> ModelledWorkload:
    meter = CallMeter()
    with meter.call():
        run(*arguments)
    found = launches.found
    missing = [launch for launch in found if launch.ms is None]
    why_not = None
    if missing:
        why_not = f"{missing[0].kernel} {missing[0].grid}: {missing[0].why_not}"
    elif meter.foreign in HOST_READS:
        why_not = (
            f"run() reads values of a tensor on the host ({meter.foreign}), and what rests on them is not known here"
        )
    elif meter.foreign:
        why_not = f"run() computes with PyTorch ({meter.foreign}), which is not modelled"
    elif not found:
        why_not = "run() launched no Triton kernel"
    ms = sum(launch.times * (launch.ms or 0.0) for launch in found)
    return ModelledWorkload(label, None if why_not else ms, found[:MOST_LAUNCHES], why_not)


def _told(problem: BaseException, limit_s: float, path: str) -> str:
    lines = [frame.lineno for frame in traceback.extract_tb(problem.__traceback__) if frame.filename == path]
    line = f" (solution.py line {lines[-1]})" if lines else ""
    if isinstance(problem, TimeIsUp):
        advice = "; if one workload alone takes that long, look for a loop that does not end" if line else ""
        return f"there was no time left of {limit_s:.3g} s of the processor's for all workloads{line}{advice}"
    if isinstance(problem, NotModelled):
        return str(problem)[:_REASON_CHARS]
    if _out_of_memory(problem):
        return f"it needs more than {MEMORY_BYTES >> 30} GiB of real memory on the host"
    if isinstance(problem, NoRun):
        return str(problem)
    return f"run() raised {type(problem).__name__}{line}: {problem}"[:_REASON_CHARS]


def _out_of_memory(problem: BaseException) -> bool:
    causes = (problem, problem.__cause__)
    return "allocate memory" in str(problem) or any(isinstance(cause, MemoryError) for cause in causes)


def _load(path: str) -> Callable[..., Any]:
    """Import the candidate from its file: the interpreter reads kernel sources there."""
    spec = importlib.util.spec_from_file_location("solution", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} cannot be imported as a Python module")
    module = importlib.util.module_from_spec(spec)
    sys.modules["solution"] = module
    spec.loader.exec_module(module)
    return run_of(module)


def bound_memory() -> None:
    """Bound what this process may write to, before it is confined. Lazy tensors, which nobody writes, do not count."""
    with open("/proc/self/status", encoding="ascii") as file:
        held = next(int(line.split()[1]) << 10 for line in file if line.startswith("VmData:"))
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    wanted = held + MEMORY_BYTES
    bound = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (bound, hard))
