"""A process that has torch and triton imported and forks candidates in a fraction of a second.

It is forked from the evaluator before any job is read, so that it holds nothing worth stealing. One zygote interprets
kernels (TRITON_INTERPRET=1), one compiles them: Triton decides at import which of the two it does.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import socket
import struct
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from d2k_agent.contract import VerdictStatus
from d2k_agent.evaluator.faults import CandidateFault
from d2k_agent.isolation.processes import end_with_parent

Body = Callable[[socket.socket, dict[str, Any]], None]
"""What a forked candidate does: serve its private channel, given the order that asked for it."""

_PID = struct.Struct("<q")
"""A candidate's process number; minus an errno where it could not be forked."""
_ADVICE = ": it read or wrote where nothing is; look for a load or store without a mask, or a wrong offset"


class ZygoteEnded(ConnectionError):
    """The zygote is gone, and with it this evaluator's use: start another."""


@dataclass(frozen=True)
class Zygote:
    """The supervisor's end of a zygote."""

    pid: int
    channel: socket.socket

    def fork(self, order: dict[str, Any]) -> tuple[int, socket.socket]:
        """Fork a candidate: its pid (a child of this process, by way of the subreaper) and its private channel.

        Raises OSError where the system gives no process, and ZygoteEnded.
        """
        ours, theirs = socket.socketpair()
        try:
            socket.send_fds(self.channel, [json.dumps(order).encode()], [theirs.fileno()])
            answer = self.channel.recv(_PID.size)
        except ConnectionError:
            answer = b""
        finally:
            theirs.close()
        pid = _PID.unpack(answer)[0] if len(answer) == _PID.size else None
        if pid is not None and pid > 0:
            return pid, ours
        ours.close()
        if pid is None:
            raise ZygoteEnded(
                "the process that forks candidates ended: free memory if the system killed it, "
                "and see that this Python can import torch and triton; the evaluator starts again with the next job"
            )
        raise OSError(-pid, f"no process for a candidate ({os.strerror(-pid)}); end other processes or raise the limit")


def start(prepare: Callable[[], Body]) -> Zygote:
    """Fork a zygote that runs `prepare` (imports, no CUDA) and then serves fork orders with the body it returned."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = os.fork()
    if pid:
        theirs.close()
        return Zygote(pid, ours)
    status = 1
    try:
        ours.close()
        end_with_parent()
        os.setsid()
        _close_all_but(theirs.fileno(), 2)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        _serve(theirs, prepare())
        status = 0
    except Exception:  # noqa: BLE001 - nobody above can be told: the evaluator's stderr is where its launcher looks
        traceback.print_exc()
    finally:
        os._exit(status)


def _serve(channel: socket.socket, body: Body) -> None:
    while True:
        data, descriptors, _, _ = socket.recv_fds(channel, 1 << 16, 4)
        if not data:
            return
        middle = _fork(channel)
        if middle == 0:
            # Two forks: the middle process ends at once, so that the supervisor (a subreaper) becomes the parent.
            os.setsid()
            candidate = _fork(channel)
            if candidate == 0:
                _run_body(body, descriptors[0], json.loads(data))
            if candidate is not None:
                channel.send(_PID.pack(candidate))
            os._exit(0)
        if middle is not None:
            os.waitpid(middle, 0)
        for descriptor in descriptors:
            os.close(descriptor)


def _fork(channel: socket.socket) -> int | None:
    """Fork; None where the system has no process to give, which the supervisor has been told then."""
    try:
        return os.fork()
    except OSError as problem:
        channel.send(_PID.pack(-(problem.errno or errno.EAGAIN)))
        return None


def _run_body(body: Body, descriptor: int, order: dict[str, Any]) -> None:
    status = 1
    try:
        supervisor = int(order["supervisor"])
        while os.getppid() != supervisor:
            time.sleep(0.0005)
        end_with_parent()
        _close_all_but(descriptor)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        body(socket.socket(fileno=descriptor), order)
        status = 0
    finally:
        os._exit(status)


def _close_all_but(*kept: int) -> None:
    """Keep these descriptors and point the other standard ones at /dev/null: stdin carries jobs and seeds."""
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        if standard not in kept:
            os.dup2(null, standard)
    for name in os.listdir("/proc/self/fd"):
        number = int(name)
        if number > 2 and number not in kept:
            try:
                os.close(number)
            except OSError:
                # The descriptor of the listing itself is gone by now.
                continue


def gone(pid: int, line: int | None, wait_s: float = 5.0) -> CandidateFault:
    """The fault of a candidate whose channel closed without an answer, told from its exit status.

    `line` of solution.py is where it was when a signal ended it, None where nobody knows.
    """
    until = time.monotonic() + wait_s
    while True:
        try:
            found, status = os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:
            return CandidateFault(VerdictStatus.ENDED_EARLY, "the candidate's process ended before run() answered")
        if found or time.monotonic() > until:
            break
        time.sleep(0.01)
    if not found:
        return CandidateFault(VerdictStatus.ENDED_EARLY, "the candidate closed its channel before run() answered")
    if os.WIFSIGNALED(status):
        name = signal.Signals(os.WTERMSIG(status)).name
        if name == "SIGKILL":
            return CandidateFault(
                VerdictStatus.OUT_OF_MEMORY, "the candidate's process was killed by the system, most likely for memory"
            )
        where = "" if line is None else f" (solution.py line {line})"
        advice = _ADVICE if name in ("SIGSEGV", "SIGBUS") else ""
        return CandidateFault(VerdictStatus.RUNTIME_ERROR, f"the candidate's process died of {name}{where}{advice}")
    return CandidateFault(
        VerdictStatus.ENDED_EARLY,
        f"the candidate's process ended with exit status {os.WEXITSTATUS(status)} before run() answered",
    )
