"""Starting the supervisor around a command, and listening to it: output, time limit, answer."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from d2k_agent.errors import MachineError
from d2k_agent.isolation import end_descendants
from d2k_agent.sandbox.capture import Captured, HeadTail

if TYPE_CHECKING:
    from d2k_agent.isolation.supervisor import Plan

_GRACE_S = 20.0
"""How long the supervisor may take to end a tree and answer; SIGKILL needs milliseconds unless a driver hangs."""
_CHUNK = 1 << 16
_BOOTSTRAP = "import sys; sys.path.append({root!r}); from d2k_agent.isolation.supervisor import main; main({fds})"


@dataclass(frozen=True)
class Completed:
    """A command that has ended, with everything it started.

    `returncode` counts as in a shell (128 + signal) and is None when the time limit ended the command.
    `ended_processes` is how many processes had to be killed one by one: everything at the limit, else what was left in
    the background (under bubblewrap that goes with its process namespace and is not counted). `queued_s` is how long it
    waited for a GPU before it began, which `seconds` does not hold.
    """

    returncode: int | None
    stdout: Captured
    stderr: Captured
    timed_out: bool
    seconds: float
    ended_processes: int
    measures: tuple[str, ...]
    queued_s: float = 0.0


def run_supervised(plan: Plan, stdin: bytes | None, limit_s: float, output_bytes: int) -> Completed:
    """Run `plan` to its end or for `limit_s` seconds; at most `output_bytes` of each stream are kept.

    Standard input is `stdin`, or closed. Raises MachineError when the command could not be started or supervised.
    """
    with _Supervised(plan, stdin, output_bytes) as supervised:
        return supervised.listen(limit_s)


class _Supervised:
    """One supervisor process and the five pipes to it."""

    def __init__(self, plan: Plan, stdin: bytes | None, output_bytes: int) -> None:
        self._began = time.monotonic()
        control_in_child, self._control = os.pipe()
        self._report, report_in_child = os.pipe()
        self._open: set[int] = {self._control, self._report}
        try:
            self._process = _start((control_in_child, report_in_child), stdin is not None)
        except OSError as problem:
            self._close(self._control)
            self._close(self._report)
            raise MachineError(f"no process could be started ({problem.strerror}); free memory or processes") from None
        finally:
            os.close(control_in_child)
            os.close(report_in_child)
        self._stdin = memoryview(stdin or b"")
        self._streams = {self._process.stdout: HeadTail(output_bytes), self._process.stderr: HeadTail(output_bytes)}
        self._answer = b""
        self._plan = plan

    def __enter__(self) -> Self:
        with contextlib.suppress(BrokenPipeError):  # the supervisor's end shows below as a missing answer
            os.write(self._control, self._plan.encode())
        return self

    def __exit__(self, *_: object) -> None:
        """Whatever happened (Ctrl-C too): the tree is ended before this returns."""
        self._close(self._control)
        try:
            self._process.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            end_descendants(self._process.pid)
            self._process.kill()
            self._process.wait()
        self._close(self._report)
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream is not None and not stream.closed:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()

    def listen(self, limit_s: float) -> Completed:
        timed_out = False
        deadline = self._began + limit_s
        with selectors.DefaultSelector() as selector:
            self._register(selector)
            while selector.get_map():
                for key, _ in selector.select(max(0.0, deadline - time.monotonic())):
                    self._serve(selector, key)
                if time.monotonic() < deadline:
                    continue
                if timed_out:
                    raise MachineError(f"a tool process could not be ended within {_GRACE_S} s; look for a hung driver")
                timed_out, deadline = self._control in self._open, time.monotonic() + _GRACE_S
                self._close(self._control)
        return self._completed(timed_out)

    def _register(self, selector: selectors.BaseSelector) -> None:
        selector.register(self._report, selectors.EVENT_READ)
        for stream in self._streams:
            if stream is not None:
                selector.register(stream, selectors.EVENT_READ)
        if self._process.stdin is not None:
            os.set_blocking(self._process.stdin.fileno(), False)
            selector.register(self._process.stdin, selectors.EVENT_WRITE)

    def _serve(self, selector: selectors.BaseSelector, key: selectors.SelectorKey) -> None:
        if key.fileobj is self._process.stdin:
            self._send(selector)
            return
        data = os.read(key.fd, _CHUNK)
        if not data:
            selector.unregister(key.fileobj)
        elif key.fileobj == self._report:
            self._answer += data
        else:
            self._streams[key.fileobj].feed(data)  # type: ignore[index]  # registered above with these streams only

    def _send(self, selector: selectors.BaseSelector) -> None:
        stream = self._process.stdin
        assert stream is not None
        try:
            self._stdin = self._stdin[os.write(stream.fileno(), self._stdin[:_CHUNK]) :]
        except BrokenPipeError:
            self._stdin = memoryview(b"")  # the command does not read what it was given: its own affair
        if not self._stdin:
            selector.unregister(stream)
            stream.close()

    def _completed(self, timed_out: bool) -> Completed:
        stdout, stderr = (stream.captured() for stream in self._streams.values())
        answer: dict[str, Any] = json.loads(self._answer or "{}")
        if not answer:
            raise MachineError(f"the supervisor of a tool process ended without an answer{_said(stderr)}")
        if "error" in answer:
            raise MachineError(f"a tool process could not be started: {answer['error']}{_said(stderr)}")
        timed_out = timed_out and answer["returncode"] is None
        seconds = time.monotonic() - self._began
        measures = tuple(answer["measures"])
        return Completed(answer["returncode"], stdout, stderr, timed_out, seconds, answer["ended"], measures)

    def _close(self, descriptor: int) -> None:
        if descriptor in self._open:
            self._open.remove(descriptor)
            os.close(descriptor)


def _start(fds: tuple[int, int], with_input: bool) -> subprocess.Popen[bytes]:
    root = str(Path(__file__).resolve().parents[2])
    return subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _BOOTSTRAP.format(root=root, fds=f"{fds[0]}, {fds[1]}")],
        stdin=subprocess.PIPE if with_input else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={},
        cwd="/",
        pass_fds=fds,
        start_new_session=True,
    )


def _said(stderr: Captured) -> str:
    text = (stderr.head + stderr.tail).decode(errors="replace").strip()
    return f"; it said: {text[-500:]}" if text else ""
