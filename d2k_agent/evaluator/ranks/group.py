"""The candidate's processes of all ranks, as one: an order goes to each, an answer is there when all have answered."""

from __future__ import annotations

import os
import secrets
import select
import socket
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack
from typing import Any, Self

from d2k_agent.contract import VerdictStatus
from d2k_agent.evaluator.faults import CandidateFault
from d2k_agent.evaluator.process import CandidateProcess
from d2k_agent.evaluator.ranks.device import RankedDevice
from d2k_agent.evaluator.ranks.lateness import Lateness
from d2k_agent.evaluator.ranks.merging import merged

APART_S = 20.0
"""Once a rank has answered, the others have this long: they are waiting for what does not come, or are far too slow."""
_HELD_UP_S = {"cpu": (0.05, 3.0), "apart": (0.0005, 0.003), "shared": (0.005, 0.03)}
"""For how long one rank is held up within a call, at least and at most, so that the others reach what they should have
waited for: on GPUs of their own about as long as a call takes; on one that they share, in turns of milliseconds, for
several turns; on a CPU as long as the latest call took."""

Start = Callable[[int], CandidateProcess]
"""A process that is not entered yet, for a GPU by number."""


class RankGroup(CandidateProcess):
    """The processes of one candidate, or of the baseline. What ends one of them ends all.

    `gathers`: each has a comm that gathers over the host. In each checked call one rank is held up, at a place that
    nobody knows before. `warm`: all have made a call.
    """

    def __init__(self, start: Start, device: RankedDevice, gathers: bool) -> None:
        self._ranked, self.gathers = device, gathers
        self._members = [start(place) for place in device.places]
        self._held = ExitStack()
        self.isolation: str | None = None
        self.ended = self.warm = False
        self._lateness = Lateness(len(self._members))
        self._call_s, self._held_up_s = 0.0, 0.0
        self._ordered: float | None = None

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
        """Let each confine itself and import the source, all at once."""
        with ThreadPoolExecutor(len(self._members)) as pool:
            loading = {pool.submit(member.load): rank for rank, member in enumerate(self._members)}
            for loaded in as_completed(loading):
                try:
                    loaded.result()
                except CandidateFault as fault:
                    self._fail(loading[loaded], fault)
                    raise
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
        held_up: list[dict[str, Any]] = [{} for _ in self._members]
        if request["do"] == "call":
            held_up = [{"hold_up": hold_up} for hold_up in self._one_held_up("store")]
            self._ordered = time.monotonic()
        for member, more in zip(self._members, held_up, strict=True):
            member.order({**request, **more}, descriptors)

    def order_chain(self, calls: int) -> None:
        """Order calls without a pause between them, each held up on one rank."""
        drawn = [self._one_held_up("load") for _ in range(calls)]
        for rank, member in enumerate(self._members):
            member.order({"do": "steps", "calls": calls, "hold_ups": [by_rank[rank] for by_rank in drawn]})

    def _one_held_up(self, mostly: str) -> list[tuple[float, float, str]]:
        """What each rank's HoldUps.within() takes for one call: no seconds but for one rank.

        A call reads too early what is stored late; what is read late only a call that follows overwrites.
        """
        where = "cpu" if self._ranked.name == "cpu" else "apart" if self._ranked.apart else "shared"
        least, most = _HELD_UP_S[where]
        drawn = self._call_s if where == "cpu" else secrets.SystemRandom().uniform(least, most)
        self._held_up_s = min(max(drawn, least), most)
        late = self._lateness.draw(mostly)
        seconds = [self._held_up_s if rank == late.rank else 0.0 for rank in range(len(self._members))]
        return [(late.share, held_up_s, late.kind) for held_up_s in seconds]

    def _attach(self, sets: Sequence[dict[str, Any]], descriptors: Sequence[int]) -> None:
        by_rank: list[list[dict[str, Any]]] = [[] for _ in self._members]
        handed: list[list[int]] = [[] for _ in self._members]
        comm: dict[str, Any] = {}
        ahead: list[int] = []
        left = list(descriptors)
        for shared in sets:
            for rank, part in enumerate(shared["ranks"]):
                by_rank[rank].append(part["set"])
                handed[rank] += [left.pop(0) for _ in range(part["descriptors"])]
            comm = shared["comm"]  # sets of one workload lie over the same workspaces
            ahead = [left.pop(0) for _ in range(comm["descriptors"])]
        for rank, member in enumerate(self._members):
            request: dict[str, Any] = {"do": "attach", "sets": by_rank[rank]}
            if sets:
                own = {"rank": rank, "blocks": comm["blocks"], "bytes": comm["bytes"], "trusted": self.gathers}
                request["comm"] = own
            member.order(request, [*ahead, *handed[rank]])

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
                self._fail(rank, fault)
                raise
            until = min(until, time.monotonic() + APART_S)
        if expected == b"D" and self._ordered is not None:
            took_s, self._ordered = time.monotonic() - self._ordered, None
            self._call_s = max(took_s - self._held_up_s, took_s / 2)  # others may have waited for none of it
        return merged(expected, [payloads[rank] for rank in range(len(self._members))], doing)

    def _fail(self, rank: int, fault: CandidateFault) -> None:
        """End all ranks, and let the fault of one name it."""
        self.kill()
        fault.message, fault.brief = f"rank {rank}: {fault.message}", f"rank {rank}: {fault.brief}"
        fault.args = (fault.message,)

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
