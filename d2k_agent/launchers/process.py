"""An evaluator process on this machine behind pipes, kept up for the run."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from d2k_agent.contract import EvaluatorJob, Verdict
from d2k_agent.contract.frames import FrameError, FrameTimeout, read_frame, write_frame
from d2k_agent.contract.wire import WireError, from_data, to_data
from d2k_agent.errors import EvaluatorError, MachineError, UsageError
from d2k_agent.launchers.archive import BOOTSTRAP, build_archive
from d2k_agent.launchers.base import Progress

_STDERR_CHARS = 2000
_START_S = 180.0
_GRACE_S = 120.0


class ProcessLauncher:
    """Starts the evaluator on first use. A dying evaluator is started again once; the second death is an error.

    `environment` is the evaluator's whole environment: it must hold no key.
    """

    def __init__(
        self,
        environment: Mapping[str, str],
        python: str = sys.executable,
        progress: Progress = lambda _: None,
    ) -> None:
        self._environment = dict(environment)
        self._python, self.progress = python, progress
        self._process: subprocess.Popen[bytes] | None = None
        self._stderr: IO[bytes] | None = None

    def launch(self, job: EvaluatorJob) -> Verdict:
        """The verdict on a job; retried once when the evaluator dies of it."""
        try:
            return self._attempt(job)
        except EvaluatorError:
            self.progress("the evaluator died; starting it again")
            return self._attempt(job)

    def close(self) -> None:
        """Close the evaluator's stdin, which ends it and everything it started; kill it if it does not go."""
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(BrokenPipeError):
            assert process.stdin is not None
            process.stdin.close()
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        assert process.stdout is not None and self._stderr is not None
        process.stdout.close()
        self._stderr.close()

    def _attempt(self, job: EvaluatorJob) -> Verdict:
        process = self._running()
        assert process.stdin is not None and process.stdout is not None
        try:
            write_frame(process.stdin.fileno(), b"J", json.dumps(to_data(job)).encode())
            # The evaluator says what it does before each bounded step: silence beyond the longest bound is a hang.
            deadline = time.monotonic() + _START_S
            while frame := read_frame(process.stdout.fileno(), deadline=deadline):
                kind, payload = frame
                deadline = time.monotonic() + job.limits.longest_step_s + _GRACE_S
                if kind == b"P":
                    self.progress(payload.decode("utf-8", "replace"))
                    continue
                return self._answer(kind, payload)
        except FrameTimeout:
            process.kill()
        except (BrokenPipeError, FrameError):
            pass  # said below, with what the evaluator left on its stderr
        raise self._died()

    def _answer(self, kind: bytes, payload: bytes) -> Verdict:
        if kind == b"T":
            raise UsageError(payload.decode("utf-8", "replace"))
        if kind == b"M":
            raise MachineError(payload.decode("utf-8", "replace"))
        try:
            return from_data(Verdict, json.loads(payload))
        except (WireError, ValueError) as problem:
            raise EvaluatorError(f"the evaluator answered what is no verdict: {problem}") from None

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is not None and self._process.poll() is None:
            return self._process
        self.close()
        command = [self._python, "-c", BOOTSTRAP]
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._stderr,
                env=self._environment,
                cwd="/",
                bufsize=0,
                start_new_session=True,
            )
        except OSError as problem:
            self._stderr.close()
            raise MachineError(f"cannot start the evaluator ({command[0]}): {problem}") from None
        archive = build_archive(Path(__file__).resolve().parent.parent)
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(len(archive).to_bytes(8, "little"))
            rest = memoryview(archive)
            while rest:
                rest = rest[self._process.stdin.write(rest) or 0 :]
        except BrokenPipeError:
            raise self._died() from None
        return self._process

    def _died(self) -> EvaluatorError:
        process = self._process
        status = None
        if process is not None:
            try:
                status = process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                process.kill()
                status = process.wait()
        told = ""
        if self._stderr is not None:
            self._stderr.seek(0)
            told = self._stderr.read().decode("utf-8", "replace")[-_STDERR_CHARS:].strip()
        reason = told.splitlines()[-1] if told else "it left no message"
        self.close()
        return EvaluatorError(f"the evaluator ended with status {status}: {reason}")
