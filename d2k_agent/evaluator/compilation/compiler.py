"""Compiles kernels in forked processes, several at once, and hands the results back through Triton's own cache.

A process of its own because a compiler can crash (LLVM aborts on what it cannot do), can take minutes, and must then
be stopped without losing what is already known. Does not cover which kernels are wanted: capture.py finds them.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from triton.backends.nvidia.compiler import CUDABackend
from triton.runtime.errors import OutOfResources, PTXASError

from d2k_agent.evaluator.compilation.targets import TENSOR_MEMORY_COLUMNS, Target

POLL_S = 0.005
LOG_CHARS = 20_000
_FRONTEND_ERRORS = frozenset(("CompilationError", "CompileTimeAssertionFailure", "UnsupportedLanguageConstruct"))

TritonCompile = Callable[..., Any]


@dataclass(frozen=True)
class Request:
    """One kernel variant to compile. `optional`: a tuner's configuration after its first one."""

    source: Any
    target: Any
    options: dict[str, Any] | None
    optional: bool = False

    @property
    def key(self) -> str:
        """The same for every request that gives the same binary."""
        return f"{self.source.hash()}|{sorted((self.options or {}).items(), key=lambda item: item[0])}"

    @property
    def name(self) -> str:
        return str(self.source.fn.__name__)


@dataclass(frozen=True)
class Outcome:
    """How one compilation ended: `kind` is "compiled", "crashed", or the class of what the compiler raised."""

    kind: str
    text: str
    seconds: float


class CompilerFailed(RuntimeError):
    """The compiler crashed or raised what Triton has no class for. The message is meant for the kernel's author."""


class KernelCompiler:
    """Compiles for one capture. `scratch` is a writable folder; `compile_here` is Triton's own compile()."""

    def __init__(self, compile_here: TritonCompile, target: Target, scratch: Path, workers: int) -> None:
        self._compile_here = compile_here
        self._target = target
        self._scratch = scratch
        self._workers = max(1, workers)
        self._started = 0
        self.outcomes: dict[str, Outcome] = {}
        self.interrupted: dict[str, float] = {}
        """Kernels that were being compiled when time ran out, and for how many seconds."""

    def compile_ahead(self, requests: Sequence[Request], optional_until: float) -> None:
        """Compile what is not known yet, several at once. Optional ones are stopped at `optional_until`, unknown."""
        wanted: dict[str, Request] = {}
        for request in requests:
            known = wanted.get(request.key)
            if request.key not in self.outcomes and (known is None or known.optional):
                wanted[request.key] = request
        self._run(sorted(wanted.values(), key=lambda request: request.optional), optional_until)

    def compile_now(self, request: Request) -> Any:
        """The compiled kernel. Raises what the compiler would raise here, or CompilerFailed."""
        if request.key not in self.outcomes:
            self._run([request], float("inf"))
        outcome = self.outcomes[request.key]
        if outcome.kind == "compiled" or outcome.kind in _FRONTEND_ERRORS:
            # From the cache; or raised again, here, with its chain of causes and the syntax tree that names the line.
            return self._compile_here(request.source, target=request.target, options=request.options)
        if outcome.kind == "PTXASError":
            raise PTXASError(outcome.text)
        if outcome.kind == "OutOfResources":
            raise OutOfResources(*json.loads(outcome.text))
        raise CompilerFailed(f"{outcome.kind}: {outcome.text}")

    def _run(self, requests: Sequence[Request], optional_until: float) -> None:
        waiting, jobs = list(requests), dict[int, _Job]()
        try:
            while waiting or jobs:
                if time.monotonic() > optional_until:
                    waiting = [request for request in waiting if not request.optional]
                    for pid, job in list(jobs.items()):
                        if job.request.optional:
                            _end(pid)
                            del jobs[pid]
                while waiting and len(jobs) < self._workers:
                    job = self._start(waiting.pop(0))
                    jobs[job.pid] = job
                for pid in [pid for pid in jobs if _ended(pid)]:
                    job = jobs.pop(pid)
                    self.outcomes[job.request.key] = job.outcome()
                time.sleep(POLL_S if jobs else 0)
        finally:
            for pid, job in jobs.items():
                _end(pid)
                self.interrupted[job.request.name] = time.monotonic() - job.began

    def _start(self, request: Request) -> _Job:
        self._started += 1
        answer = self._scratch / f"compile-{self._started}.json"
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            self._work(request, answer)
        return _Job(pid, request, answer, time.monotonic())

    def _work(self, request: Request, answer: Path) -> None:
        """The life of a forked compiler. Never returns."""
        try:
            os.setpgid(0, 0)
            with answer.with_suffix(".stderr").open("wb") as file:
                os.dup2(file.fileno(), 2)
                os.dup2(file.fileno(), 1)
            _refuse_before_ptxas(self._target)
            kind, printed = "compiled", io.StringIO()
            try:
                # Triton prints ptxas's log when asked to, and the whole PTX when ptxas fails.
                with contextlib.redirect_stdout(printed):
                    self._compile_here(request.source, target=request.target, options=request.options)
                text = printed.getvalue()
            except OutOfResources as problem:
                kind, text = "OutOfResources", json.dumps([problem.required, problem.limit, problem.name])
            except Exception as problem:  # noqa: BLE001 - whatever a compiler raises is news for the kernel's author
                kind, text = type(problem).__name__, str(problem)
            answer.write_text(json.dumps([kind, text[:LOG_CHARS]]), encoding="utf-8")
        finally:
            os._exit(0)


@dataclass(frozen=True)
class _Job:
    pid: int
    request: Request
    answer: Path
    began: float

    def outcome(self) -> Outcome:
        """Read after the process has ended."""
        seconds = time.monotonic() - self.began
        try:
            kind, text = json.loads(self.answer.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            said = self.answer.with_suffix(".stderr").read_text(encoding="utf-8", errors="replace")
            lines = [line for line in said.splitlines() if line.strip()]
            return Outcome("the compiler crashed", " ".join(lines[:4])[:1000] or "it said nothing", seconds)
        return Outcome(str(kind), str(text), seconds)


def _refuse_before_ptxas(target: Target) -> None:
    """In this process, raise OutOfResources before ptxas runs: half a minute of work on what cannot be launched."""
    assemble = CUDABackend.make_cubin

    def make_cubin(backend: Any, source: Any, metadata: Any, *rest: Any) -> Any:
        needed, columns = int(metadata["shared"]), int(metadata.get("tmem_size") or 0)
        if needed > target.shared_limit_bytes:
            raise OutOfResources(needed, target.shared_limit_bytes, "shared memory")
        if columns > TENSOR_MEMORY_COLUMNS:
            raise OutOfResources(columns, TENSOR_MEMORY_COLUMNS, "tensor memory")
        return assemble(backend, source, metadata, *rest)

    CUDABackend.make_cubin = make_cubin


def _ended(pid: int) -> bool:
    return os.waitpid(pid, os.WNOHANG)[0] == pid


def _end(pid: int) -> None:
    """End a compiler and the ptxas that it started."""
    for send in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError):
            send(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
