"""What runs in a candidate's process: confine itself, import solution.py, answer calls.

Everything here shares its process with code that may be hostile, so nothing here is evidence on its own: outputs are
bytes that the supervisor compares, and the supervisor's clock and checks stand outside.
"""

from __future__ import annotations

import faulthandler
import gc
import importlib.util
import inspect
import json
import os
import resource
import socket
import sys
import time
import traceback
import types
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch

from d2k_agent.contract.frames import HEADER, write_frame
from d2k_agent.evaluator import lacking, layout
from d2k_agent.evaluator.attached import AttachedSet, Returned, outputs_of
from d2k_agent.evaluator.devices.inside import Inside, inside
from d2k_agent.evaluator.foreign import watch_acts
from d2k_agent.evaluator.metering import CallMeter
from d2k_agent.evaluator.ranks.inside import TimedRank, open_comm
from d2k_agent.evaluator.solution import CRASH_FILE, run_of
from d2k_agent.evaluator.timing.timed import TimedCalls
from d2k_agent.isolation import Policy, confine, gpu_devices, skip_unreadable_packages, toolchain_paths

MAX_ERROR_CHARS = 6000
MOST_DESCRIPTORS = 32
"""With an order: eight ranks' workspaces, and a few sets."""
TRITON_CACHE = "triton"
"""Below a candidate's folder."""
_ENVIRONMENT = {
    *("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "CC"),
    *("OPENBLAS_NUM_THREADS", "OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "OMP_NUM_THREADS", "TRITON_INTERPRET"),
}


def enter(order: dict[str, Any]) -> tuple[str, ...]:
    """Confine the calling process to its scratch folder and the toolchain; return the measures applied.

    `order` holds `scratch`, `memory_bytes` (None: no bound, as CUDA reserves more addresses than there is memory),
    `unsafe_no_sandbox` and, where a GPU may be used, `device`: "cuda"; `other_threads` as confine() has it.
    """
    scratch = str(order["scratch"])
    os.chdir(scratch)
    for name in set(os.environ) - _ENVIRONMENT:
        del os.environ[name]
    for name in ("TMPDIR", "HOME", "XDG_CACHE_HOME"):
        os.environ[name] = scratch
    os.environ["TRITON_CACHE_DIR"] = os.path.join(scratch, TRITON_CACHE)
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_FSIZE, 1 << 30)
    if order["memory_bytes"] is not None:
        _limit(resource.RLIMIT_AS, int(order["memory_bytes"]))
    if order["unsafe_no_sandbox"]:
        return ("none",)
    policy = candidate_policy(scratch, order.get("device", "cpu"))
    measures = confine(policy, other_threads=bool(order.get("other_threads")))
    skip_unreadable_packages()
    return measures


def candidate_policy(scratch: str, device: str) -> Policy:
    """What a candidate on that device (cpu or cuda) may touch."""
    readable, listable = toolchain_paths()
    if device != "cuda":
        return Policy(read=tuple(readable), write=(scratch,), list_only=tuple(listable))
    devices = (*Policy.devices, *gpu_devices())
    # CUDA writes the names of its threads below /proc.
    return Policy(tuple(readable), (scratch,), tuple(listable), devices, proc=True)


def _limit(kind: int, value: int) -> None:
    """Lower a limit of this process; one that is lower already stays."""
    hard = resource.getrlimit(kind)[1]
    bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(kind, (bound, bound))


def load_solution(path: str) -> types.ModuleType:
    """Import solution.py from a real file (Triton reads kernel sources from it)."""
    if os.environ.get("TRITON_INTERPRET") == "1":
        lacking.announce()
    spec = importlib.util.spec_from_file_location("solution", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"cannot load {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules["solution"] = module
    spec.loader.exec_module(module)
    run_of(module)
    return module


def serve_calls(channel: socket.socket, order: dict[str, Any]) -> None:
    """The life of a running candidate: load, then attach inputs and answer calls until the supervisor is done."""
    try:
        measures = enter(order)
    except OSError as problem:
        write_frame(channel.fileno(), b"X", f"no isolation for a candidate: {problem}".encode())
        return
    with open(CRASH_FILE, "wb") as crash:
        faulthandler.enable(crash.fileno(), all_threads=False)
        write_frame(channel.fileno(), b"R", "+".join(measures).encode())
        _answer_all(channel, order)


def _answer_all(channel: socket.socket, order: dict[str, Any]) -> None:
    caller = _Caller(channel, inside(order.get("device", "cpu"), int(order.get("gpu", 0))))
    while True:
        request, descriptors = receive(channel)
        if not request:
            return
        try:
            caller.handle(request, descriptors)
        except BaseException as problem:  # noqa: BLE001 - whatever a candidate raises, SystemExit included, is its answer
            _report(channel, caller.device.reach.fault or problem, caller.foreign)


class _Caller:
    """The state of one candidate between orders: its module, its sets of inputs, the outputs of its last calls."""

    def __init__(self, channel: socket.socket, device: Inside) -> None:
        self.descriptor = channel.fileno()
        self.device = device
        self.module: types.ModuleType | None = None
        self.sets: list[AttachedSet] = []
        self.last: tuple[torch.Tensor, ...] = ()
        self.returned = Returned()
        self.timed: TimedCalls | None = None
        self.acts: list[str] = []
        self.meter: CallMeter | None = None

    @property
    def foreign(self) -> str:
        """What the candidate did that it may not do, ever or in the latest metered call; empty for nothing."""
        return (self.acts or [self.meter.foreign if self.meter else ""])[0]

    def handle(self, request: dict[str, Any], descriptors: list[int]) -> None:
        operation = request["do"]
        self.meter = None
        gc.disable()  # what a cycle runs when it is let go of runs where somebody looks, or in a timed call
        self.device.reach.check()
        if operation == "load":
            self.device.start()
            self.acts = watch_acts(os.path.dirname(request["path"]), os.environ.get("CC", "cc"))
            with self.device.importing(), _collecting():
                self.module = load_solution(request["path"])
            self.device.reach.check()
            write_frame(self.descriptor, b"L", b"")
        elif operation == "attach":
            self._attach(request, descriptors)
        elif operation == "call":
            held_up = self.device.hold_ups.within(*request["hold_up"]) if "hold_up" in request else nullcontext()
            self._call(self.sets[int(request["set"])], bool(request["in_order"]), held_up)
        elif operation == "observe":
            self._observe(self.sets[int(request["set"])])
        else:
            assert self.timed is not None
            with _collecting():
                kind, payload = self.timed.handle(operation, request, descriptors)
            write_frame(self.descriptor, kind, payload)

    def _attach(self, request: dict[str, Any], descriptors: list[int]) -> None:
        self.sets, self.last, self.timed = [], (), None
        self.device.close_blocks()
        rest = iter(descriptors)
        comm = [open_comm(request["comm"], self.device, rest)] if "comm" in request else []
        for shared in request["sets"]:
            inputs = self.device.open_block(shared["inputs"], rest)
            answers = self.device.open_block(shared["answers"], rest)
            arguments = [*layout.attach_arguments(inputs, shared["arguments"]), *comm]
            self.sets.append(AttachedSet(arguments, inputs, answers, tuple(shared["mutated"])))
        self.device.lend(self.sets)
        if self.sets:
            assert self.module is not None
            run = self.module.run
            ranked = [TimedRank(run, self.sets, self.device, item.rank) for item in comm]
            self.timed = ranked[0] if ranked else TimedCalls(run, self.sets, self.device)
        write_frame(self.descriptor, b"A", b"")

    def _call(self, given: AttachedSet, in_order: bool, held_up: AbstractContextManager[None]) -> None:
        """One metered call on a set. `in_order`: its inputs come, and its outputs go, in the order of the
        stream alone; else the GPU is idle before and after it. `held_up` is the context to call run() in.
        """
        assert self.module is not None
        # What is let go of may run code of its own, and what is called may have been replaced: a meter sees all of it.
        with CallMeter() as self.meter, _collecting():
            given.poison(self.last)
            self.last = ()
            if self.timed is not None:
                self.timed.drop()  # outputs that we keep are not the call's
            self.device.reach.begin()
            writes = given.writes()
            began = time.perf_counter_ns()
            with self.device.coming_late(given.inputs) if in_order else nullcontext():
                with self.device.metered() as meter:
                    with held_up:
                        result = self.module.run(*given.arguments)
                    if not in_order:
                        self.device.synchronize()
                self.last = outputs_of(result)
                headers = given.answer(self.last)
                self.device.synchronize()
            wall_ns = time.perf_counter_ns() - began
        self.device.reach.check()
        written = {position for position, count in given.writes().items() if count != writes[position]}
        written.update(self.device.reach.written)
        seen = self.foreign, self.returned.again(self.last, given), tuple(sorted(written))
        answer = layout.AnswerHeader(headers, meter.peak_bytes, meter.copied_bytes, wall_ns, *seen)
        write_frame(self.descriptor, b"D", layout.pack_answer(answer))

    def _observe(self, given: AttachedSet) -> None:
        """One more call, for what it launches and with which operators; and what metered ones of a batch came to."""
        assert self.module is not None and self.timed is not None
        run, metered = self.module.run, self.timed.metered
        self.timed.drop()

        def call() -> None:
            with metered.one():
                run(*given.arguments)

        kernels = self.device.observe(call)
        told: dict[str, Any] = {"kernels": kernels, "foreign": (self.acts or [metered.foreign])[0]}
        told |= {"peak_bytes": metered.peak_bytes, "copied_bytes": metered.copied_bytes}
        write_frame(self.descriptor, b"A", json.dumps(told).encode())


@contextmanager
def _collecting() -> Iterator[None]:
    """Inside, Python looks for cycles by itself, as a user's does."""
    gc.enable()
    try:
        yield
    finally:
        gc.disable()


def receive(channel: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """One order of the supervisor and the descriptors that came with it; ({}, []) at its end."""
    header, descriptors, _, _ = socket.recv_fds(channel, HEADER.size, MOST_DESCRIPTORS)
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


def _report(channel: socket.socket, problem: BaseException, foreign: str) -> None:
    """Send an exception as text: its kind, what it says, where in solution.py it arose, and what was done before."""
    write_frame(channel.fileno(), b"E", json.dumps({**describe(problem), "foreign": foreign}).encode())


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
    if "not supported in interpreter mode" in text:
        text += "; a CPU judges with Triton's interpreter, which lacks this: only a GPU can judge it"
    return {"kinds": kinds[:8], "text": text[:MAX_ERROR_CHARS], "line": line}
