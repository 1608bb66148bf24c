"""The candidate's processes of all ranks, as one: an order goes to each, an answer is there when all have answered."""

from __future__ import annotations

import os
import secrets
import select
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any, Self

from d2k_agent.contract import VerdictStatus
from d2k_agent.evaluator.faults import CandidateFault
from d2k_agent.evaluator.process import CandidateProcess
from d2k_agent.evaluator.ranks.device import RankedDevice
from d2k_agent.evaluator.ranks.merging import merged

APART_S = 20.0
"""Once a rank has answered, the others have this long: they are waiting for what does not come, or are far too slow."""
_DELAY_S = {"cpu": (0.05, 0.15), "cuda": (0.0005, 0.003)}
"""By how much one rank begins a call later than the others: enough for a missing flag to show."""

Start = Callable[[int], CandidateProcess]
"""A process that is not entered yet, for a GPU by number."""


class RankGroup(CandidateProcess):
    """The processes of one candidate, or of the baseline. What ends one of them ends all.

    `gathers`: each has a comm that gathers over the host. Before each checked call one rank, which nobody knows before,
    is held up.
    """

    def __init__(self, start: Start, device: RankedDevice, trusted: bool) -> None:
        self._ranked, self.gathers = device, trusted
        self._members = [start(place) for place in device.places]
        self._held = ExitStack()
        self.isolation: str | None = None
        self.ended = False

    def __enter__(self) -> Self:
        with ExitStack() as held:
            for member in self._members:
                held.enter_context(member)
            self._held = held.pop_all()
        self.scratch, self.path = self._members[0].scratch, self._members[0].path
        return self

    def __exit__(self, *_: object) -> None:
        self.ended = True
        self._held.close()

    @property
    def pids(self) -> list[int]:
        """The processes of all ranks."""
        return [member.pid for member in self._members]

    def kill(self) -> None:
        """End all of them."""
        self.ended = True
        for member in self._members:
            member.kill()

    def load(self) -> None:
        """Let each confine itself and import the source."""
        for member in self._members:
            member.load()
        self.isolation = self._members[0].isolation

    def libraries(self) -> frozenset[str]:
        """What any of them has mapped; what lies in a rank's own folder is told as if it lay in that of the first."""
        return frozenset(
            self.scratch + path.removeprefix(member.scratch) if path.startswith(member.scratch + os.sep) else path
            for member in self._members
            for path in member.libraries()
        )

    def order(self, request: dict[str, Any], descriptors: Sequence[int] = ()) -> None:
        """Send an order to each; the sets of an attachment are handed out by rank."""
        if request["do"] == "attach":
            self._attach(request["sets"], descriptors)
            return
        late = secrets.randbelow(len(self._members))
        for rank, member in enumerate(self._members):
            delayed = {"delay_s": self.delay_s()} if request["do"] == "call" and rank == late else {}
            member.order({**request, **delayed}, descriptors)

    def order_chain(self, calls: int) -> None:
        """Order calls without a pause between them, each held up on one rank."""
        late = [(call, secrets.randbelow(len(self._members))) for call in range(calls)]
        for rank, member in enumerate(self._members):
            delays = [[call, self.delay_s()] for call, chosen in late if chosen == rank]
            member.order({"do": "steps", "calls": calls, "delays": delays})

    def delay_s(self) -> float:
        """Seconds by which a rank is held up."""
        least, most = _DELAY_S[self._ranked.name]
        return least + (most - least) * secrets.randbelow(1000) / 1000

    def _attach(self, sets: Sequence[dict[str, Any]], descriptors: Sequence[int]) -> None:
        by_rank: list[list[dict[str, Any]]] = [[] for _ in self._members]
        handed: list[list[int]] = [[] for _ in self._members]
        left = list(descriptors)
        for shared in sets:
            for rank, part in enumerate(shared["ranks"]):
                by_rank[rank].append(part["set"])
                handed[rank] += [left.pop(0) for _ in range(part["descriptors"])]
        for rank, member in enumerate(self._members):
            request: dict[str, Any] = {"do": "attach", "sets": by_rank[rank]}
            own = handed[rank]
            if sets and self._ranked.memory is not None:
                blocks, ahead = self._ranked.memory.share()
                size = self._ranked.memory.workspace_bytes
                request["comm"] = {"rank": rank, "blocks": blocks, "bytes": size, "trusted": self.gathers}
                own = [*ahead, *own]
            member.order(request, own)

    def has_answered(self) -> bool:
        """True once all ranks have something to say, or one that it failed: the others may wait for it for ever."""
        told = [_kind_of_next(member.channel) for member in self._members if member.has_answered()]
        return len(told) == len(self._members) or bool({b"", b"E"} & set(told))

    def answer(self, expected: bytes, limit_s: float, doing: str) -> bytes:
        """What all ranks answered, as one payload.

        A rank that fails, ends or waits for ever ends all of them: the CandidateFault names it.
        """
        until, payloads = time.monotonic() + limit_s, dict[int, bytes]()
        while len(payloads) < len(self._members):
            rank = self._next_ready(payloads, until)
            if rank is None:
                raise self._overdue(payloads, limit_s, doing)
            try:
                payloads[rank] = self._members[rank].answer(expected, max(1.0, until - time.monotonic()), doing)
            except CandidateFault as fault:
                self.kill()
                fault.args = (f"rank {rank}: {fault.message}",)
                fault.message, fault.brief = f"rank {rank}: {fault.message}", f"rank {rank}: {fault.brief}"
                raise
            until = min(until, time.monotonic() + APART_S)
        return merged(expected, [payloads[rank] for rank in range(len(self._members))], doing)

    def _next_ready(self, payloads: dict[int, bytes], until: float) -> int | None:
        """A rank that has something to say and was not heard; None when time is up."""
        waiting = {member.channel: rank for rank, member in enumerate(self._members) if rank not in payloads}
        ready = select.select(list(waiting), [], [], max(0.0, until - time.monotonic()))[0]
        return min((waiting[channel] for channel in ready), default=None)

    def _overdue(self, payloads: dict[int, bytes], limit_s: float, doing: str) -> CandidateFault:
        self.kill()
        silent = _ranks([rank for rank in range(len(self._members)) if rank not in payloads])
        if payloads:
            told = f"{silent} did not finish {doing} within {min(limit_s, APART_S):.0f} s of {_ranks(sorted(payloads))}"
        else:
            told = f"{silent} did not finish {doing} within {limit_s:.0f} s"
        message = f"{told}: waiting for what no rank sends, or far too slow; everything they started was ended"
        return CandidateFault(VerdictStatus.TIMED_OUT, message)


def _kind_of_next(channel: socket.socket) -> bytes:
    """The kind of the frame that waits in a channel; empty where the process has ended."""
    try:
        return channel.recv(1, socket.MSG_PEEK)
    except ConnectionResetError:
        return b""


def _ranks(numbers: Sequence[int]) -> str:
    return f"rank{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"
