"""One compile job from end to end: scout, compile side by side, capture, and an answer within the time limit.

Runs in a confined process of its own, in its main thread: it executes the candidate. It proves that kernels compile
and fit, never that they are right or fast.
"""

from __future__ import annotations

import contextlib
import gc
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import triton
from triton import knobs
from triton.runtime.cache import triton_key
from triton.runtime.errors import OutOfResources

from d2k_agent.contract import CompileReport
from d2k_agent.evaluator.alarm import Alarm
from d2k_agent.evaluator.compilation.capture import Call, Capture, Scout, try_calls
from d2k_agent.evaluator.compilation.compiler import KernelCompiler, Request
from d2k_agent.evaluator.compilation.failures import CandidateSource, Failure, describe
from d2k_agent.evaluator.compilation.fake_cuda import FakeTensors, HostTensors, needs_values
from d2k_agent.evaluator.compilation.inspect_binary import Resources, read_log
from d2k_agent.evaluator.compilation.report import build_report
from d2k_agent.evaluator.compilation.targets import Target, find_target
from d2k_agent.evaluator.compilation.tuning import LeftOut
from d2k_agent.evaluator.solution import NoRun

TUNING_S = 60.0


class LimitReached(BaseException):
    """Time is up. Not an Exception, so that a candidate's `except Exception` does not take it for its own."""


def prepare() -> None:
    """Do once, in the process that forks candidates, what each of them and each of its compilers would do anew.

    Triton reads all of its own files for a digest, which takes as long as a small kernel; and the meter of a call
    collects garbage, which need not look at what PyTorch and Triton will keep.
    """
    triton_key()
    gc.collect()
    gc.freeze()


def compile_candidate(
    path: str,
    calls: Sequence[Call],
    target: str,
    scratch: str,
    limit_s: float,
    smoke_calls: Sequence[Call] = (),
) -> CompileReport:
    """Compile every kernel that `run()` of the candidate at `path` launches, for `target`.

    `calls` are the registered workloads, each with what makes its arguments on a device given by name ("cuda");
    nothing is allocated for them. A candidate whose host code reads tensor values is run on `smoke_calls` instead.
    `scratch` is a writable folder. The answer comes within about `limit_s` seconds: what is not finished then is its
    `error`. Everything in it is of bounded size. Must be called in the main thread of a process that can be thrown
    away: torch and Triton keep pretending. Raises ValueError for an unknown target and RuntimeError in a process that
    interprets kernels; what making arguments raises is raised again. All of them are made once before the candidate's
    code is there, and anew after it.
    """
    gpu = find_target(target)
    if knobs.runtime.interpret:
        raise RuntimeError("this process interprets kernels: start it without TRITON_INTERPRET to compile them")
    began = time.monotonic()
    limit = Alarm(limit_s, LimitReached)
    job = CompileJob(CandidateSource(path), gpu, Path(scratch), limit)
    with _settings(scratch):
        try:
            with limit:
                job.run(calls, smoke_calls)
        except LimitReached as reached:
            job.failure = job.failure or Failure("time", job.unfinished(limit_s, job.source.last_line(reached)))
    uses = list(job.capture.uses.values()) if job.capture else []
    tuners = list(job.capture.tuning.tuners.values()) if job.capture else []
    return build_report(
        target=gpu,
        uses=uses,
        tuners=tuners,
        workloads=job.capture.workloads if job.capture else {},
        resources=job.resources,
        source=job.source,
        failure=job.failure,
        notes=job.notes,
        registered=job.registered,
        seconds=time.monotonic() - began,
    )


_HOST_CODE = "the Python code of solution.py was still running"
_TOO_MUCH = "Use smaller tiles, less unrolling or fewer variants."


class CompileJob:
    """The state of one job. After run(): `capture` is the last pass, `failure` what went wrong, `notes` warnings.

    `registered` is False where it was taken through the smaller workloads instead.
    """

    def __init__(self, source: CandidateSource, target: Target, scratch: Path, limit: Alarm) -> None:
        self.source, self.target, self._limit = source, target, limit
        self.capture: Capture | None = None
        self.resources: dict[bytes, Resources] = {}
        self.failure: Failure | None = None
        self.notes: list[str] = []
        self.registered = True
        self._compiler = KernelCompiler(triton.compiler.compile, target, scratch, len(os.sched_getaffinity(0)))
        self._tuning_until = float("inf")
        self._variants = 0
        self._phase = "nothing had been begun"

    def run(self, calls: Sequence[Call], smoke_calls: Sequence[Call]) -> None:
        """Take the candidate through `calls`, or through `smoke_calls` when its host code needs values."""
        try_calls(smoke_calls, self.target)
        tensors: type[FakeTensors | HostTensors] = FakeTensors
        capture = self._pass(calls, tensors())
        if needs_values(capture.problem) and smoke_calls:
            labels = ", ".join(label for label, _ in smoke_calls)
            self.notes.append(
                "run() reads tensor values on the host, which stalls a GPU: its kernels were compiled at reduced "
                f"shapes ({labels}), not at the registered ones"
            )
            calls, tensors, self.registered = smoke_calls, HostTensors, False
            capture = self._pass(calls, tensors())
        self._limit.insist(capture.problem)  # the candidate's code may have made another error of it
        if capture.problem is not None:
            where = f"workload {capture.label}: " if capture.label else "importing solution.py: "
            if isinstance(capture.problem, NoRun):
                where = ""
            failure = describe(capture.problem, self.source, capture.last_request, self.target)
            self.failure = Failure(failure.kind, where + failure.text)
        if isinstance(capture.problem, OutOfResources):
            self._see_the_others(calls, tensors(), capture.last_request)

    def _see_the_others(self, calls: Sequence[Call], tensors: FakeTensors | HostTensors, told: Request | None) -> None:
        """One more pass, which leaves out kernels that do not fit: further ones than the `told` one become notes.

        Of each is said at which workloads it does not fit.
        """
        self.capture = Capture(self.target, self._compile, self._registers, go_on=True)
        self.capture.run(self.source.path, calls, tensors)
        for name, unfit in self.capture.unfit.items():
            labels = [label for label in unfit.labels if label is not None]
            where = f" It does not fit at {', '.join(labels)}." if labels else ""
            if self.failure is not None and told is not None and name == told.name:
                where = where if len(labels) > 1 else ""
                self.failure = Failure(self.failure.kind, self.failure.text + where)
            else:
                self.notes.append(describe(unfit.problem, self.source, unfit.request, self.target).text + where)

    def _pass(self, calls: Sequence[Call], tensors: FakeTensors | HostTensors) -> Capture:
        scout = Scout()
        scouting = Capture(self.target, scout, lambda _: None)
        self._phase = _HOST_CODE
        scouting.run(self.source.path, calls, tensors)
        scout.forget()
        if needs_values(scouting.problem):
            return scouting.without_kernels()
        self._variants = len({request.key for request in scout.requests})
        self._tuning_until = time.monotonic() + TUNING_S
        self._phase = "kernels were still being compiled"
        self._compiler.compile_ahead(scout.requests, self._tuning_until)
        self._phase = _HOST_CODE
        self.capture = Capture(self.target, self._compile, self._registers)
        self.capture.run(self.source.path, calls, type(tensors)())
        return self.capture

    def _compile(self, request: Request) -> Any:
        if request.optional and request.key not in self._compiler.outcomes and time.monotonic() > self._tuning_until:
            raise LeftOut
        compiled = self._compiler.compile_now(request)
        self.resources[compiled.kernel] = read_log(self._compiler.outcomes[request.key].text)
        return compiled

    def _registers(self, binary: bytes) -> int | None:
        return self.resources.get(binary, Resources()).registers

    def unfinished(self, limit_s: float, line: int | None) -> str:
        """What to say when time is up: what is done, what was going on (at a line of the source), what would help."""
        outcomes = list(self._compiler.outcomes.values())
        done = sum(outcome.kind == "compiled" for outcome in outcomes)
        parts = [f"compiling did not finish within {limit_s:.0f} s"]
        if self._variants:
            slowest = f", the slowest in {max(outcome.seconds for outcome in outcomes):.1f} s" if outcomes else ""
            parts.append(f"{done} of {self._variants} kernel variants were compiled{slowest}")
        going_on = [
            f"kernel {name} was still being compiled after {seconds:.1f} s"
            for name, seconds in list(self._compiler.interrupted.items())[:5]
        ]
        if going_on or self._phase != _HOST_CODE:
            return "; ".join(parts + (going_on or [self._phase])) + f". {_TOO_MUCH}"
        where = "" if line is None else f", at line {line}"
        return "; ".join([*parts, f"{_HOST_CODE}{where}"]) + ". Look for a loop in it that does not end."


@contextlib.contextmanager
def _settings(scratch: str) -> Iterator[None]:
    """Triton's cache and temporary files below `scratch`, ptxas's log kept, numerics as on the GPU machine."""
    folder, tempfile.tempdir = tempfile.tempdir, scratch
    with knobs.cache.scope(), knobs.nvidia.scope(), knobs.language.scope():
        knobs.cache.dir = str(Path(scratch, "kernels"))
        knobs.nvidia.dump_ptxas_log = True
        knobs.language.default_fp_fusion = True
        try:
            yield
        finally:
            tempfile.tempdir = folder
