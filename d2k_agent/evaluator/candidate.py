"""What runs in a candidate's process: confine itself, import solution.py, answer calls.

Everything here shares its process with code that may be hostile, so nothing here is evidence on its own: outputs are
bytes that the supervisor compares, and the supervisor's clock and checks stand outside.
"""

from __future__ import annotations

import importlib.util
import inspect
import json
import mmap
import os
import resource
import socket
import sys
import time
import traceback
import types
from typing import Any

import torch

from d2k_agent.contract.frames import HEADER, write_frame
from d2k_agent.evaluator import layout
from d2k_agent.evaluator.metering import CallMeter
from d2k_agent.isolation import Policy, confine, skip_unreadable_packages, toolchain_paths

MAX_ERROR_CHARS = 6000
_ENVIRONMENT = {
    *("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES", "CC"),
    *("OPENBLAS_NUM_THREADS", "OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "OMP_NUM_THREADS", "TRITON_INTERPRET"),
}


def enter(order: dict[str, Any]) -> tuple[str, ...]:
    """Confine the calling process to its scratch folder and the toolchain; return the measures applied."""
    scratch = str(order["scratch"])
    os.chdir(scratch)
    for name in set(os.environ) - _ENVIRONMENT:
        del os.environ[name]
    for name in ("TMPDIR", "HOME", "XDG_CACHE_HOME"):
        os.environ[name] = scratch
    os.environ["TRITON_CACHE_DIR"] = os.path.join(scratch, "triton")
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_FSIZE, 1 << 30)
    _limit(resource.RLIMIT_AS, int(order["memory_bytes"]))
    if order["unsafe_no_sandbox"]:
        return ("none",)
    readable, listable = toolchain_paths()
    measures = confine(Policy(read=tuple(readable), write=(scratch,), list_only=tuple(listable)))
    skip_unreadable_packages()
    return measures


def _limit(kind: int, value: int) -> None:
    """Lower a limit of this process; one that is lower already stays."""
    hard = resource.getrlimit(kind)[1]
    bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(kind, (bound, bound))


def load_solution(path: str) -> types.ModuleType:
    """Import solution.py from a real file (Triton reads kernel sources from it)."""
    spec = importlib.util.spec_from_file_location("solution", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"cannot load {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules["solution"] = module
    spec.loader.exec_module(module)
    if not callable(getattr(module, "run", None)):
        raise AttributeError("solution.py defines no function run(...)")
    return module


def serve_calls(channel: socket.socket, order: dict[str, Any]) -> None:
    """The life of an interpreted candidate: load, then attach inputs and answer calls until the supervisor is done."""
    try:
        measures = enter(order)
    except OSError as problem:
        write_frame(channel.fileno(), b"X", f"no isolation for a candidate: {problem}".encode())
        return
    # New memory is filled with NaN: a result that was never written cannot look like one.
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.set_num_threads(1)
    write_frame(channel.fileno(), b"R", "+".join(measures).encode())
    caller = _Caller(channel)
    while True:
        request, descriptors = receive(channel)
        if not request:
            return
        try:
            caller.handle(request, descriptors)
        except BaseException as problem:  # noqa: BLE001 - whatever a candidate raises, SystemExit included, is its answer
            _report(channel, problem)


class _Caller:
    """The state of one candidate between orders: its module, its attached inputs, the outputs of its last call."""

    def __init__(self, channel: socket.socket) -> None:
        self.descriptor = channel.fileno()
        self.module: types.ModuleType | None = None
        self.arguments: list[Any] = []
        self.answers: torch.Tensor | None = None
        self.last: tuple[torch.Tensor, ...] = ()

    def handle(self, request: dict[str, Any], descriptors: list[int]) -> None:
        operation = request["do"]
        if operation == "load":
            self.module = load_solution(request["path"])
            write_frame(self.descriptor, b"L", b"")
        elif operation == "attach":
            self.arguments = layout.attach_arguments(_map(descriptors[0]), request["arguments"])
            self.answers = _map(descriptors[1])
            self.last = ()
            write_frame(self.descriptor, b"A", b"")
        elif operation == "call":
            self._call()

    def _call(self) -> None:
        assert self.module is not None and self.answers is not None
        lent = {value.untyped_storage().data_ptr() for value in self.arguments if isinstance(value, torch.Tensor)}
        for tensor in self.last:
            if tensor.untyped_storage().data_ptr() not in lent:  # a returned input holds the new draw by now
                _poison(tensor)
        meter = CallMeter()
        began = time.perf_counter_ns()
        with meter:
            result = self.module.run(*self.arguments)
        wall_ns = time.perf_counter_ns() - began
        outputs = result if isinstance(result, (tuple, list)) else (result,)
        for output in outputs:
            if type(output) is not torch.Tensor:
                raise TypeError(f"run() must return torch.Tensor, not {type(output).__name__}")
        headers = tuple(layout.header_of(output) for output in outputs)
        places, size = layout.offsets(list(headers))
        if size <= self.answers.numel():
            for output, header, offset in zip(outputs, headers, places, strict=True):
                layout.view(self.answers, header, offset).copy_(output)
        self.last = tuple(outputs)
        answer = layout.AnswerHeader(headers, meter.peak_bytes, meter.copied_bytes, wall_ns, meter.foreign)
        write_frame(self.descriptor, b"D", layout.pack_answer(answer))


def _poison(tensor: torch.Tensor) -> None:
    """Overwrite the output of an earlier call, so that handing it back again is a wrong answer."""
    with torch.no_grad():
        tensor.fill_(float("nan") if tensor.is_floating_point() else 0x55 if tensor.dtype != torch.bool else True)


def _map(descriptor: int) -> torch.Tensor:
    """A shared memory block as a uint8 tensor."""
    block = mmap.mmap(descriptor, os.fstat(descriptor).st_size)
    os.close(descriptor)
    return torch.frombuffer(block, dtype=torch.uint8)


def receive(channel: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """One order of the supervisor and the descriptors that came with it; ({}, []) at its end."""
    header, descriptors, _, _ = socket.recv_fds(channel, HEADER.size, 8)
    if len(header) < HEADER.size:
        return {}, []
    _, length = HEADER.unpack(header)
    parts = bytearray()
    while len(parts) < length:
        part = channel.recv(length - len(parts))
        if not part:
            return {}, []
        parts += part
    return json.loads(parts), list(descriptors)


def _report(channel: socket.socket, problem: BaseException) -> None:
    """Send an exception as text: its kind, what it says, and where in solution.py it arose."""
    write_frame(channel.fileno(), b"E", json.dumps(describe(problem)).encode())


def describe(problem: BaseException) -> dict[str, Any]:
    """An exception as data: `kinds` (names of its class and bases), `text`, `line` of solution.py or None."""
    line = None
    for frame in traceback.extract_tb(problem.__traceback__):
        if os.path.basename(frame.filename) == "solution.py":
            line = frame.lineno
    kinds = [base.__name__ for base in inspect.getmro(type(problem))]
    cause = problem.__cause__ or problem.__context__
    try:
        text = str(problem) or (str(cause) if cause else "")
    except Exception:  # noqa: BLE001 - the candidate's own __str__ may raise anything
        text = "(its text cannot be had)"
    if isinstance(problem, SystemExit):
        text = f"run() left with exit status {problem.code}"
    return {"kinds": kinds[:8], "text": text[:MAX_ERROR_CHARS], "line": line}
