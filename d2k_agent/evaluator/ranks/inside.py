"""A rank seen from inside its process: the `comm` that run() gets, and timed calls of a rank among others."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch

from d2k_agent.evaluator.attached import AttachedSet
from d2k_agent.evaluator.devices.inside import Inside, map_descriptor
from d2k_agent.evaluator.ranks.memory import MEETING_BYTES, PAD_BYTES, SIGNALS
from d2k_agent.evaluator.timing.page import BEGUN, DONE, STOP
from d2k_agent.evaluator.timing.timed import QUEUED, Frame, TimedCalls


@dataclass(frozen=True)
class Comm:
    """What run() gets as its last argument in a task for several ranks.

    ws        uint8, the own workspace; what it holds does not survive a call
    ws_ptrs   int64 [world], the addresses of all workspaces, as this rank's kernels reach them
    sig       int32 [4096], the own signal pad: zero before the first call, and kept from call to call
    sig_ptrs  int64 [world], the addresses of all signal pads
    max_ctas  programs that are sure to run at the same time: a grid may wait within itself up to this size
    """

    rank: int
    world: int
    ws: torch.Tensor
    ws_ptrs: torch.Tensor
    sig: torch.Tensor
    sig_ptrs: torch.Tensor
    max_ctas: int


class GatheringComm:
    """A Comm that also gathers, for the task's own reference: over the host, through the workspaces."""

    def __init__(self, comm: Comm, device: Inside, addresses: Sequence[int], meeting: Any) -> None:
        self._comm, self._device, self._addresses = comm, device, addresses
        self._words, self._met = memoryview(meeting).cast("I"), 0

    def __getattr__(self, name: str) -> Any:
        """Whatever else a Comm has."""
        return getattr(self._comm, name)

    def all_gather(self, tensor: torch.Tensor) -> list[torch.Tensor]:
        """The tensors that all ranks gave, by rank: of one shape and dtype."""
        given = tensor.contiguous()
        self._comm.ws[: given.nbytes].copy_(given.reshape(-1).view(torch.uint8))
        self._device.synchronize()
        self._meet()
        gathered = [torch.empty_like(given) for _ in self._addresses]
        for address, into in zip(self._addresses, gathered, strict=True):
            self._device.read_peer(address + PAD_BYTES, into)
        self._meet()
        return gathered

    def _meet(self) -> None:
        """Return once every rank is here. Ranks that wait for one that ended are ended by the supervisor."""
        self._met += 1
        self._words[self._comm.rank] = self._met
        while min(self._words[: self._comm.world]) < self._met:
            time.sleep(0)


def open_comm(shared: dict[str, Any], device: Inside, descriptors: Iterator[int]) -> Comm | GatheringComm:
    """The comm over the blocks that Symmetric.share() told of; one that gathers where the code is `trusted`."""
    rank, end = int(shared["rank"]), PAD_BYTES + int(shared["bytes"])
    addresses, own = [], torch.empty(0)
    for number, block in enumerate(shared["blocks"]):
        if number == rank:
            own = device.open_block(block, descriptors)
            addresses.append(own.data_ptr())
        else:
            addresses.append(device.open_peer(block, descriptors))
    meeting = map_descriptor(next(descriptors))
    spaces = [range(address + PAD_BYTES, address + end) for address in addresses]
    device.hold_ups.watch(spaces[rank], spaces[:rank] + spaces[rank + 1 :])
    comm = Comm(
        rank=rank,
        world=len(addresses),
        ws=own[PAD_BYTES:end],
        ws_ptrs=torch.tensor([address + PAD_BYTES for address in addresses], dtype=torch.int64, device=own.device),
        sig=own[:PAD_BYTES].view(torch.int32),
        sig_ptrs=torch.tensor(addresses, dtype=torch.int64, device=own.device),
        max_ctas=device.resident_programs(),
    )
    return GatheringComm(comm, device, addresses, memoryview(meeting)[:MEETING_BYTES]) if shared["trusted"] else comm


def pretended_comm(world: int, workspace_bytes: int, device: str) -> Comm:
    """The comm of the last rank with nothing behind it, for a compiler on a device that need not be there.

    Of two ranks it is the one whose number Triton makes a constant: what compiles for it compiles for the first.
    """
    return Comm(
        rank=world - 1,
        world=world,
        ws=torch.empty(workspace_bytes, dtype=torch.uint8, device=device),
        ws_ptrs=torch.empty(world, dtype=torch.int64, device=device),
        sig=torch.empty(SIGNALS, dtype=torch.int32, device=device),
        sig_ptrs=torch.empty(world, dtype=torch.int64, device=device),
        max_ctas=int(torch.cuda.get_device_properties(0).multi_processor_count),
    )


class TimedRank(TimedCalls):
    """The timed calls of one rank. A batch ends on all ranks with the same call, which the supervisor names."""

    def __init__(self, run: Callable[..., Any], sets: list[AttachedSet], device: Inside, rank: int) -> None:
        super().__init__(run, sets, device)
        self._done, self._begun = DONE + rank, BEGUN + rank
        self._hold_ups: list[tuple[float, float, str]] = []

    def handle(self, operation: str, request: dict[str, Any], descriptors: list[int]) -> Frame:
        """As TimedCalls does; `hold_ups` has what HoldUps.within() takes, for each call that is no timed one."""
        self._hold_ups = request.get("hold_ups", [])
        return super().handle(operation, request, descriptors)

    def _call(self, number: int) -> None:
        with self._device.hold_ups.within(*self._hold_ups[number]) if self._hold_ups else nullcontext():
            super()._call(number)

    def _batch(self) -> tuple[int, float]:
        """Calls until the supervisor raises its flag, and up to the last call that it names then.

        A rank that stopped by itself would leave another one waiting for ever. A call is told of before it begins, and
        the flag is looked at in between: so no rank begins more than one call that the supervisor does not know of.
        """
        assert self._page is not None
        page, ahead, number = self._page, [], 0
        page[self._begun] = 0
        start = self._device.mark()
        while not (page[STOP] and number >= page.last()):
            page[self._begun] = number + 1
            self._call_of_batch(number)
            number += 1
            ahead.append(self._device.mark())
            if len(ahead) > QUEUED:
                ahead.pop(0).synchronize()
        return number, self._since(start)
