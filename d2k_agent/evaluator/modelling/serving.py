"""What runs in the process of a candidate that is modelled: confine itself, take one order, give one answer."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from typing import Any

from d2k_agent.contract.frames import write_frame
from d2k_agent.contract.wire import to_data
from d2k_agent.evaluator.candidate import describe, enter
from d2k_agent.evaluator.checks.compiling import arguments_of
from d2k_agent.evaluator.modelling.job import bound_memory, model_candidate

MODELLED = "modelled"
"""In the place of a device in a fork order: the candidate is not called on one."""


def serve_modelling(channel: socket.socket, order: dict[str, Any], receive: Callable[..., Any]) -> None:
    """The life of a candidate that is modelled: confine, then one order, one answer."""
    try:
        bound_memory()
        measures = enter(order)
    except OSError as problem:
        write_frame(channel.fileno(), b"X", f"no isolation for a candidate: {problem}".encode())
        return
    write_frame(channel.fileno(), b"R", "+".join(measures).encode())
    request, _ = receive(channel)
    if not request:
        return
    calls = [(workload["label"], arguments_of(request["generator"], workload)) for workload in request["workloads"]]
    try:
        told = model_candidate(request["path"], calls, request["target"], float(request["limit_s"]))
    except BaseException as problem:  # noqa: BLE001 - whatever a candidate raises, SystemExit included, is its answer
        write_frame(channel.fileno(), b"E", json.dumps(describe(problem)).encode())
        return
    write_frame(channel.fileno(), b"K", json.dumps(to_data(told), allow_nan=False).encode())
