"""Every launch of run() at the registered shapes, compiled for the target in a confined process of its own."""

from __future__ import annotations

import json
import socket
import types
from collections.abc import Callable, Sequence
from typing import Any

from d2k_agent.contract import CompileReport, EvaluatorJob, VerdictStatus
from d2k_agent.contract.frames import write_frame
from d2k_agent.contract.wire import from_data, to_data
from d2k_agent.evaluator.candidate import MAX_ERROR_CHARS, describe, enter
from d2k_agent.evaluator.faults import CandidateFault, TaskFault
from d2k_agent.evaluator.process import CandidateProcess, decode
from d2k_agent.evaluator.ranks.inside import pretended_comm

_TASK_FAULT = "task_fault"
"""In a report's place: what the task's own get_inputs.py raised."""


class _GeneratorFailed(Exception):
    """get_inputs.py raised under the capture before a candidate's code was there: no candidate is blamed."""


def compile_report(
    job: EvaluatorJob, target: str, process: CandidateProcess, workloads: Sequence[Any], smoke: Sequence[Any]
) -> tuple[CompileReport, str]:
    """The compiler's view of the candidate, and how it was confined.

    Raises CandidateFault when its process failed before it could report, TaskFault when get_inputs.py failed there.
    Host code that reads values of tensors is captured at the smoke workloads: registered ones have no values here.
    """
    process.order(
        {
            "path": process.path,
            "scratch": process.scratch,
            "target": target,
            "limit_s": job.limits.compile_s,
            "generator": job.task.public["get_inputs.py"],
            "workloads": list(workloads),
            "smoke": list(smoke),
        }
    )
    isolation = process.answer(b"R", job.limits.import_s, "confining the candidate").decode("ascii", "replace")
    payload = process.answer(b"K", job.limits.compile_s + job.limits.import_s, "compiling")
    try:
        answer = decode(payload)
        if isinstance(answer, dict) and _TASK_FAULT in answer:
            raise TaskFault(f"task {job.task.slug}: {answer[_TASK_FAULT]}, asked for inputs on a GPU to compile for")
        return from_data(CompileReport, answer), isolation
    except ValueError:
        raise CandidateFault(VerdictStatus.ENDED_EARLY, "compiling answered out of protocol") from None


def serve_compile(channel: socket.socket, order: dict[str, Any], receive: Callable[..., Any]) -> None:
    """The life of a compiling candidate: confine, then one order, one report."""
    from d2k_agent.evaluator.compilation import compile_candidate  # not in a process that interprets

    try:
        measures = enter(order)
    except OSError as problem:
        write_frame(channel.fileno(), b"X", f"no isolation for a candidate: {problem}".encode())
        return
    write_frame(channel.fileno(), b"R", "+".join(measures).encode())
    request, _ = receive(channel)
    if not request:
        return
    calls, smoke = (
        [(workload["label"], arguments_of(request["generator"], workload)) for workload in request[name]]
        for name in ("workloads", "smoke")
    )
    try:
        report = compile_candidate(
            request["path"], calls, request["target"], request["scratch"], float(request["limit_s"]), smoke
        )
    except _GeneratorFailed as problem:
        write_frame(channel.fileno(), b"K", json.dumps({_TASK_FAULT: str(problem)[:MAX_ERROR_CHARS]}).encode())
        return
    except BaseException as problem:  # noqa: BLE001 - whatever a candidate raises, SystemExit included, is its answer
        write_frame(channel.fileno(), b"E", json.dumps(describe(problem)).encode())
        return
    write_frame(channel.fileno(), b"K", json.dumps(to_data(report)).encode())


def arguments_of(generator: str, workload: dict[str, Any]) -> Callable[[str], list[Any]]:
    """What makes a workload's arguments on a device given by name, from the text of get_inputs.py.

    Raises _GeneratorFailed the first time. What worked once and fails later was hindered by the candidate, which may
    have filled the memory or changed torch: that is raised as it is.
    """
    worked = False

    def make(device: str) -> list[Any]:
        nonlocal worked
        module = types.ModuleType("get_inputs")
        try:
            exec(compile(generator, "get_inputs.py", "exec"), module.__dict__)
            arguments = list(module.get_inputs({**workload, "seed": 0, "device": device}))
            if "ranks" in workload:
                arguments.append(pretended_comm(int(workload["ranks"]), int(module.workspace_bytes(workload)), device))
        except (Exception, SystemExit) as problem:  # the task's author wrote this code: its failures are the task's
            if worked:
                raise
            raise _GeneratorFailed(f"get_inputs.py raised {type(problem).__name__}: {problem}") from problem
        worked = True
        return arguments

    return make
