"""Compiles what it is asked for on stdin, one forked process a job, and prints the reports: see conftest.py."""

from __future__ import annotations

import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import torch
import torch._dynamo.config  # as in the zygote: fake tensors import it when the first is made

from d2k_agent.contract.wire import to_data
from d2k_agent.evaluator.compilation import compile_candidate, prepare


def arguments(workload: dict[str, Any]) -> Callable[[str], list[Any]]:
    if "get_inputs" in workload:
        namespace: dict[str, Any] = {}
        exec(workload["get_inputs"], namespace)
        return lambda device: list(namespace["get_inputs"]({**workload["params"], "seed": 1, "device": device}))

    def make(device: str) -> list[Any]:
        torch.manual_seed(5)
        return [torch.randn(*shape, device=device, dtype=torch.bfloat16) for shape in workload["shapes"]]

    return make


def answer(job: dict[str, Any]) -> dict[str, Any]:
    os.environ.update(job.get("environment", {}))
    calls = [(workload["label"], arguments(workload)) for workload in job["workloads"]]
    smoke = [(workload["label"], arguments(workload)) for workload in job.get("smoke", ())]
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        report = compile_candidate(job["path"], calls, job["target"], scratch, job.get("limit_s", 200.0), smoke)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"report": to_data(report), "seconds": time.monotonic() - began, "peak_bytes": peak}


def apart(job: dict[str, Any]) -> Any:
    """The answer to a job from a process of its own, or the exception's name and text."""
    reader, writer = os.pipe()
    if os.fork() == 0:
        try:
            told = answer(job)
        except Exception as problem:  # noqa: BLE001 - told to the test that asked
            told = {"raised": f"{type(problem).__name__}: {problem}"}
        with os.fdopen(writer, "w") as file:
            json.dump(told, file)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as file:
        text = file.read()
    os.wait()
    return json.loads(text)


if __name__ == "__main__":
    prepare()
    json.dump({name: apart(job) for name, job in json.load(sys.stdin).items()}, sys.stdout)
