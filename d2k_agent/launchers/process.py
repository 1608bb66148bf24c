"""An evaluator process behind pipes, on this machine or through a command prefix, kept up for the run."""

from __future__ import annotations

import contextlib
import json
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from d2k_agent.contract import EvaluatorJob, Verdict
from d2k_agent.contract.frames import FrameError, FrameTimeout, read_frame, write_frame, write_whole
from d2k_agent.contract.wire import WireError, from_data, to_data
from d2k_agent.contract.wording import apart
from d2k_agent.errors import EvaluatorError, MachineError, UsageError
from d2k_agent.launchers.archive import build_archive, python_command, sized, trial_command
from d2k_agent.launchers.base import Progress
from d2k_agent.launchers.greeting import MOST_NOISE_BYTES, NoGreeting, await_greeting, new_nonce

_STDERR_CHARS = 2000
_EXCERPT_CHARS = 200
_START_S = 180.0
_QUEUE_S = 1800.0
"""A prefix may wait for its turn, in the queue of a cluster."""
_GRACE_S = 120.0


class ProcessLauncher:
    """Starts the evaluator on first use. A dying evaluator is started again once; the second death is an error.

    `environment` is the whole environment of the process that is started: it must hold no key. `prefix` is a command
    that the interpreter's is appended to; `gpu` what the evaluator is to see of the GPUs there (None: all of them);
    `archive` what is sent (None: the evaluator of this package), `start_s` how long an evaluator may take to read what
    it is sent and to say its first word. A prefix starts in this process's folder.
    """

    def __init__(
        self,
        environment: Mapping[str, str],
        python: str = sys.executable,
        progress: Progress = lambda _: None,
        *,
        prefix: Sequence[str] = (),
        gpu: str | None = None,
        archive: bytes | None = None,
        start_s: float = _START_S,
    ) -> None:
        if prefix and shlex.quote(python) != python:
            raise UsageError(
                f"{python!r} would not survive a remote shell; name an interpreter without special characters"
            )
        self._environment = dict(environment)
        self._python, self.progress = python, progress
        self._prefix, self._gpu, self._archive = tuple(prefix), gpu, archive
        self._start_s = start_s
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
        assert process.stdin is not None and process.stdout is not None and self._stderr is not None
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()
        self._stderr.close()

    def _attempt(self, job: EvaluatorJob) -> Verdict:
        process = self._running()
        assert process.stdin is not None and process.stdout is not None
        try:
            deadline = time.monotonic() + self._start_s
            write_frame(process.stdin.fileno(), b"J", json.dumps(to_data(job)).encode(), deadline)
            # The evaluator says what it does before each bounded step: silence beyond the longest bound is a hang.
            deadline = time.monotonic() + self._start_s
            while frame := read_frame(process.stdout.fileno(), deadline=deadline):
                kind, payload = frame
                deadline = time.monotonic() + job.limits.longest_step_s + _GRACE_S
                if kind == b"P":
                    self.progress(apart(payload.decode("utf-8", "replace")))
                    continue
                return self._answer(kind, payload)
        except FrameTimeout:
            process.kill()
        except (BrokenPipeError, FrameError):
            pass  # said below, with what the evaluator left on its stderr
        behind = f" behind `{shlex.join(self._prefix)}`" if self._prefix else ""
        raise EvaluatorError(f"the evaluator{behind} ended with {self._ended()}")

    def _answer(self, kind: bytes, payload: bytes) -> Verdict:
        """What a frame says. What a candidate raised may be in each, and is told from other lines from here on."""
        if kind == b"T":
            raise UsageError(apart(payload.decode("utf-8", "replace")))
        if kind == b"M":
            raise MachineError(apart(payload.decode("utf-8", "replace")))
        if kind != b"V":
            self.close()
            raise EvaluatorError(f"what is no answer came from the evaluator's machine ({kind + payload[:60]!r})")
        try:
            return from_data(Verdict, apart(json.loads(payload)))
        except (WireError, ValueError) as problem:
            raise EvaluatorError(f"the evaluator answered what is no verdict: {problem}") from None

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is not None and self._process.poll() is None:
            return self._process
        self.close()
        command = python_command(self._python, self._prefix)
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._stderr,
                env=self._environment,
                cwd=None if self._prefix else "/",
                bufsize=0,
                start_new_session=True,
            )
        except OSError as problem:
            self._stderr.close()
            raise MachineError(
                f"cannot start the evaluator with {command[0]!r} ({problem.strerror}); correct that name"
            ) from None
        self._greet(self._process)
        return self._process

    def _greet(self, process: subprocess.Popen[bytes]) -> None:
        """Send the archive and wait until the evaluator has it. Raises MachineError when a prefix leads nowhere."""
        assert process.stdin is not None and process.stdout is not None
        if self._prefix:
            self.progress(f"waiting for {shlex.join(self._prefix)}")
        nonce, noise, flooded = new_nonce(), b"", False
        try:
            with contextlib.suppress(BrokenPipeError):  # it is gone: what it printed says why
                process.stdin.write(nonce)
            limit_s = _QUEUE_S if self._prefix else self._start_s
            await_greeting(process.stdout.fileno(), nonce, time.monotonic() + limit_s)
            archive = self._archive or build_archive(Path(__file__).resolve().parent.parent)
            deadline = time.monotonic() + self._start_s
            write_whole(process.stdin.fileno(), sized(archive), deadline)
            write_frame(process.stdin.fileno(), b"S", json.dumps({"gpu": self._gpu}).encode(), deadline)
            return
        except FrameTimeout:
            process.kill()
            noise = b"it answered, and then did not read the evaluator that was sent"
        except NoGreeting as problem:
            noise, flooded = problem.noise, problem.flooded
            if problem.silent:
                process.kill()
            if problem.terminal:
                self.close()
                raise MachineError(
                    f"`{shlex.join(self._prefix)}` starts the evaluator in a terminal, which changes what passes "
                    "through it; leave its option for that out (-t, -tt, --tty, --pty)"
                ) from None
        except BrokenPipeError:
            pass  # what it left on its stderr says why
        if not self._prefix:
            raise EvaluatorError(f"the evaluator ended with {self._ended(noise)}")
        end = self._flooded(noise) if flooded else f"it ended with {self._ended(noise)}"
        raise MachineError(
            f"`{shlex.join(self._prefix)}` started no evaluator ({end}); it must run a "
            "command, pass input and output on unchanged, and let one shell at most read its words (a host behind a "
            f"host is `ssh -J`); try `{shlex.join(trial_command(self._python, self._prefix))}`, which must print 1"
        )

    def _flooded(self, noise: bytes) -> str:
        """End the process that talks without end, and say so: its status would be that of being ended."""
        self.close()
        excerpt = _excerpt(noise)
        told = f"it printed more than {MOST_NOISE_BYTES:,} bytes before the evaluator answered"
        return f"{told}, such as {excerpt!r}" if excerpt else told

    def _ended(self, noise: bytes = b"") -> str:
        """End the process and what it leaves in words: its status, and the last line of its stderr, else of `noise`."""
        process, status, told = self._process, None, ""
        if process is not None:
            try:
                status = process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                process.kill()
                status = process.wait()
        if self._stderr is not None:
            self._stderr.seek(0)
            told = self._stderr.read().decode("utf-8", "replace")[-_STDERR_CHARS:].strip()
        told = told or _excerpt(noise)
        self.close()
        return f"status {status}: {told.splitlines()[-1] if told else 'it left no message'}"


def _excerpt(noise: bytes) -> str:
    """The end of the last line in `noise`, where that is text; empty where nothing in it can be read."""
    lines = ["".join(filter(str.isprintable, line)).strip() for line in noise.decode("utf-8", "ignore").splitlines()]
    return next((line[-_EXCERPT_CHARS:] for line in reversed(lines) if line), "")
