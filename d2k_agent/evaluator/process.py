"""The supervisor's handle on one candidate process: orders out, bounded answers in, an end that leaves nobody."""

from __future__ import annotations

import builtins
import json
import math
import os
import re
import select
import shutil
import socket
import tempfile
import time
from collections.abc import Callable, Collection, Sequence
from typing import Any, BinaryIO, Self

from d2k_agent.contract import Limits, VerdictStatus
from d2k_agent.contract.frames import HEADER, FrameError, FrameTimeout, read_frame
from d2k_agent.evaluator.faults import CandidateFault
from d2k_agent.evaluator.foreign import broken_rule
from d2k_agent.evaluator.solution import CRASH_FILE, NO_RUN
from d2k_agent.evaluator.zygote import Zygote, gone
from d2k_agent.isolation import end_descendants, libraries_of

MAX_ANSWER_BYTES = 1 << 20
_MAX_FOREIGN_CHARS = 64
_CRASH_LINE = re.compile(r'solution\.py", line (\d{1,5})\b')
_MOST_CRASH_BYTES, _MOST_LINES = 1 << 16, 100_000


class IsolationRefused(Exception):
    """The machine cannot confine a candidate: nothing is executed."""


class CandidateProcess:
    """One confined candidate. A context manager: whatever happens inside, every process of it is ended."""

    def __init__(
        self,
        zygote: Zygote,
        source: str,
        limits: Limits,
        keep: Callable[[], Collection[int]],
        unsafe: bool,
        device: str = "cpu",
        gpu: int = 0,
    ) -> None:
        self._zygote, self._source, self._limits, self._device = zygote, source, limits, device
        self._gpu = gpu
        self._keep, self._unsafe = keep, unsafe
        self.scratch = ""
        self.path = ""
        self.isolation: str | None = None
        self.ended = False
        self._mapped: frozenset[str] | None = None
        self._crash: BinaryIO | None = None

    def __enter__(self) -> Self:
        self.scratch = os.path.realpath(tempfile.mkdtemp(prefix="d2k-candidate-"))
        self.path = os.path.join(self.scratch, "solution.py")
        with open(self.path, "w", encoding="utf-8", errors="surrogatepass", newline="") as file:
            file.write(self._source)
        # Opened before there is anybody who could put a pipe or a link in its place.
        self._crash = open(os.path.join(self.scratch, CRASH_FILE), "w+b")
        order = {
            "supervisor": os.getpid(),
            "scratch": self.scratch,
            "device": self._device,
            "gpu": self._gpu,
            "memory_bytes": self._limits.candidate_memory_bytes if self._device == "cpu" else None,
            "unsafe_no_sandbox": self._unsafe,
        }
        self.pid, self.channel = self._zygote.fork(order)
        return self

    def __exit__(self, *_: object) -> None:
        self.channel.close()
        self.kill()
        try:
            os.waitpid(self.pid, os.WNOHANG)  # one that ended by itself is nobody else's to reap
        except ChildProcessError:
            pass  # reaped with the others
        if self._crash is not None:
            self._crash.close()
        shutil.rmtree(self.scratch, ignore_errors=True)

    @property
    def pids(self) -> list[int]:
        """The process, as a list."""
        return [self.pid]

    def kill(self) -> None:
        """End the process and all that it started, at once; `ended` says so."""
        self.ended = True
        end_descendants(os.getpid(), keep=self._keep())

    def load(self) -> None:
        """Let the process confine itself (`isolation` says how) and import solution.py. Raises as answer() does."""
        told = self.answer(b"R", self._limits.import_s, "confining the candidate")
        self.isolation = told.decode("ascii", "replace")
        self._mapped = libraries_of(self.pid)
        self.order({"do": "load", "path": self.path})
        try:
            self.answer(b"L", self._limits.import_s, "importing solution.py")
        except Raised as fault:
            if fault.foreign:
                raise broken_rule(fault.foreign) from fault
            raise

    def libraries(self) -> frozenset[str]:
        """Paths of the libraries that the process has mapped since before it imported solution.py, read from outside.

        None are known of one that has ended, and where the machine does not show them.
        """
        now = None if self.ended else libraries_of(self.pid)
        return frozenset() if now is None or self._mapped is None else now - self._mapped

    def order(self, request: dict[str, Any], descriptors: Sequence[int] = ()) -> None:
        """Send an order, with descriptors if given. A candidate that is gone is found out by the next answer()."""
        data = json.dumps(request).encode()
        try:
            socket.send_fds(self.channel, [HEADER.pack(b"O", len(data)) + data], list(descriptors))
        except (BrokenPipeError, ConnectionResetError):
            return

    def has_answered(self) -> bool:
        """True once there is something to read: an answer, or the end of the process."""
        return bool(select.select([self.channel], [], [], 0)[0])

    def answer(self, expected: bytes, limit_s: float, doing: str) -> bytes:
        """The payload of the next frame, which must be of kind `expected`.

        Raises CandidateFault when the candidate raised, hung past `limit_s`, ended, or answered nonsense, and
        IsolationRefused when it could not be confined.
        """
        try:
            frame = read_frame(self.channel.fileno(), MAX_ANSWER_BYTES, time.monotonic() + limit_s)
        except FrameTimeout:
            raise CandidateFault(
                VerdictStatus.TIMED_OUT,
                f"{doing} did not finish within {limit_s:.0f} s; everything it started was ended",
            ) from None
        except FrameError as problem:
            raise CandidateFault(VerdictStatus.ENDED_EARLY, f"{doing} answered out of protocol: {problem}") from None
        if frame is None:
            assert self._crash is not None
            raise gone(self.pid, crash_line(self._crash, self._source))
        kind, payload = frame
        if kind == b"X":
            raise IsolationRefused(payload.decode("utf-8", "replace"))
        if kind == b"E":
            raise raised(payload, doing)
        if kind != expected:
            raise CandidateFault(VerdictStatus.ENDED_EARLY, f"{doing} answered out of protocol")
        return payload


def crash_line(file: BinaryIO, source: str) -> int | None:
    """Where in `source` Python was when a signal came, by what the process itself wrote: no evidence, but of help."""
    found = _CRASH_LINE.search(os.pread(file.fileno(), _MOST_CRASH_BYTES, 0).decode("ascii", "replace"))
    line = int(found[1]) if found else 0
    return line if 0 < line <= source.count("\n") + 1 else None


class Raised(CandidateFault):
    """The candidate raised an exception. `foreign` is what it did before that it may not do, empty for nothing."""

    def __init__(self, status: VerdictStatus, message: str, brief: str, foreign: str) -> None:
        super().__init__(status, message, brief=brief)
        self.foreign = foreign

    def because(self, reason: str) -> Raised:
        """The same fault with a reason that the candidate cannot know."""
        return Raised(self.status, f"{self.message}, {reason}", f"{self.brief}, {reason}", self.foreign)


def raised(payload: bytes, doing: str) -> CandidateFault:
    """The fault that an exception in the candidate amounts to."""
    try:
        told = decode(payload)
        kinds, text, line = [str(kind) for kind in told["kinds"]], str(told["text"]), told["line"]
        foreign = str(told.get("foreign", ""))[:_MAX_FOREIGN_CHARS]
    except (ValueError, KeyError, TypeError, AttributeError):
        return CandidateFault(VerdictStatus.ENDED_EARLY, f"{doing} answered out of protocol")
    where = f" (solution.py line {line})" if isinstance(line, int) and 0 < line < _MOST_LINES else ""
    brief = f"{doing} raised {next((kind for kind in kinds if kind in _KNOWN), 'an exception')}{where}"
    if kinds[:1] == ["TypeError"] and text.startswith(_NO_TENSOR):
        return Raised(VerdictStatus.INCORRECT, text, _NO_TENSOR, foreign)
    if text == NO_RUN:
        return Raised(VerdictStatus.RUNTIME_ERROR, NO_RUN, NO_RUN, foreign)
    message = f"{doing} raised {kinds[0][:100] if kinds else 'an exception'}{where}: {text}"
    return Raised(_status(kinds, text), message, brief, foreign)


_NO_TENSOR = "run() must return torch.Tensor"
_COMPILE_ERRORS = frozenset({"SyntaxError", "CompilationError", "CompileTimeAssertionFailure", "OutOfResources"})
_MEMORY_ERRORS = frozenset({"MemoryError", "OutOfMemoryError"})
_KNOWN = _COMPILE_ERRORS | _MEMORY_ERRORS | {name for name in dir(builtins) if name.endswith(("Error", "Exit"))}
_KNOWN |= {"OutOfBounds"}
"""Exceptions that a brief names: a candidate chooses the names of its own."""


def _status(kinds: list[str], text: str) -> VerdictStatus:
    # PyTorch has no exception of its own for the CPU's memory.
    exhausted = "RuntimeError" in kinds and "DefaultCPUAllocator" in text
    if exhausted or _MEMORY_ERRORS & set(kinds):
        return VerdictStatus.OUT_OF_MEMORY
    if _COMPILE_ERRORS & set(kinds):
        return VerdictStatus.COMPILE_ERROR
    return VerdictStatus.ENDED_EARLY if "SystemExit" in kinds else VerdictStatus.RUNTIME_ERROR


def decode(payload: bytes) -> Any:
    """JSON that a candidate's process sent. Raises ValueError for anything else, NaN, infinity and depth included."""

    def refuse(name: str) -> Any:
        raise ValueError(f"{name} is no number")

    def finite(text: str) -> float:
        return number if math.isfinite(number := float(text)) else refuse(text)

    try:
        return json.loads(payload, parse_constant=refuse, parse_float=finite)
    except RecursionError:
        raise ValueError("nested too deeply") from None
