"""A device on which several ranks run: each on a GPU of its own, several on one where there are fewer, or on a CPU."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch

from d2k_agent.evaluator.devices import Block, Device, Lent
from d2k_agent.evaluator.devices.cpu import SharedMemory
from d2k_agent.evaluator.devices.cuda import GpuMemory
from d2k_agent.evaluator.devices.nvml import Gpu, Load
from d2k_agent.evaluator.layout import TensorHeader
from d2k_agent.evaluator.ranks.memory import Symmetric, positions_of
from d2k_agent.evaluator.ranks.task import gpu_of, parts, per_rank

CHAINED = 3
"""Sets of inputs that calls without a pause between them go over, and the most that are lent at a time on a CPU."""


class RankedDevice:
    """The device for `world` ranks, made of one for a single rank."""

    def __init__(self, base: Device, world: int) -> None:
        self._base, self.world = base, world
        self.name, self.times = base.name, base.times
        self.l2_bytes, self.granule_bytes = base.l2_bytes, base.granule_bytes
        on_gpu = base.name == "cuda"
        self.most_sets = base.most_sets if on_gpu else min(CHAINED, base.most_sets)
        self.memory: Symmetric | None = None
        self._places = [gpu_of(rank) if on_gpu else 0 for rank in range(world)]
        self._gpus = [Gpu(str(torch.cuda.get_device_properties(place).uuid)) for place in self._places if on_gpu]
        self.uuids = tuple(dict.fromkeys(gpu.uuid for gpu in self._gpus)) if on_gpu else base.uuids

    @property
    def places(self) -> list[int]:
        """The GPU of each rank."""
        return list(self._places)

    @property
    def apart(self) -> bool:
        """True where each rank has a GPU of its own, so that data between ranks cross a link."""
        return len(self._gpus) == len(self.uuids) > 1

    def on(self, rank: int) -> AbstractContextManager[Any]:
        """A context in which the rank's GPU is the current one."""
        return torch.cuda.device(self._places[rank]) if self._gpus else contextlib.nullcontext()

    def describe(self) -> str:
        """The device's name; that ranks share a GPU is part of it, since what is measured so is another thing."""
        shared = "" if self.apart or not self._gpus else f", {self.world} ranks on {len(self.uuids)} GPU"
        return f"{self._base.describe()}{shared}"

    def details(self) -> dict[str, Any]:
        """Those of the first GPU, the number of ranks and the GPU of each."""
        gpus = {"gpus": [gpu.uuid for gpu in self._gpus]} if self._gpus else {}
        return {**self._base.details(), "ranks": self.world, **gpus}

    def driver(self) -> str | None:
        """The driver's version."""
        return self._base.driver()

    def lend(self, arguments: Sequence[Any], outputs: Sequence[TensorHeader], mutated: Sequence[int] = ()) -> Lent:
        """Reserve blocks for the arguments and outputs of all ranks, each in its place."""
        size, inputs = per_rank(arguments, self.world)
        if self.memory is None or self.memory.workspace_bytes != size:
            self.memory = Symmetric(self._reserve, self.on, self.world, size)
        lent: list[Lent] = []
        for rank, values in enumerate(inputs):
            with self.on(rank):
                own = positions_of(mutated, rank, len(values))
                lent.append(self._base.lend(values, parts(outputs, self.world)[rank], own))
        return RankedLent(self, self.memory, lent)

    @property
    def _reserve(self) -> Callable[[str, int], Block]:
        return GpuMemory if self._gpus else SharedMemory

    def forget(self, memory: Symmetric) -> None:
        """Workspaces that were given back are lent no more."""
        if self.memory is memory:
            self.memory = None

    def settle(self) -> None:
        """Wait for every GPU."""
        self._each(self._base.settle)

    def flush(self) -> None:
        """Fill the last cache of every GPU."""
        self._each(self._base.flush)

    def trim(self) -> None:
        """Give back memory that this process keeps."""
        self._base.trim()

    def others_bytes(self) -> int | None:
        """None: it is not read for several ranks."""
        return None

    def load(self) -> Load:
        """Clock and power of the first GPU."""
        return self._base.load()

    def sent_bytes(self) -> list[int] | None:
        """Bytes that the GPU of each rank has sent over links so far; None where nobody counts, or ranks share one."""
        sent = [gpu.sent_bytes() for gpu in self._gpus] if self.apart else []
        known = [count for count in sent if count is not None]
        return known if known and len(known) == self.world else None

    def _each(self, act: Callable[[], None]) -> None:
        for rank in sorted({self._places.index(place) for place in self._places}):
            with self.on(rank):
                act()


class RankedLent(Lent):
    """A set of every rank; `arguments` are those of all ranks in a row."""

    def __init__(self, device: RankedDevice, memory: Symmetric, lent: Sequence[Lent]) -> None:
        self._device, self._memory, self._lent = device, memory, list(lent)
        memory.hold()
        self._gather()

    def _gather(self) -> None:
        self.arguments = [self._memory.workspace_bytes, *(value for lent in self._lent for value in lent.arguments)]

    def refresh(self, arguments: Sequence[Any]) -> None:
        """New contents for all ranks; workspaces are poisoned as well."""
        for lent, values in zip(self._lent, per_rank(arguments, len(self._lent))[1], strict=True):
            lent.refresh(values)
        self._memory.poison()
        self._gather()

    def rewrite(self) -> None:
        """The same contents for all ranks. Workspaces stay as they are: poison would tell which contents are new."""
        for lent in self._lent:
            lent.rewrite()

    def restore(self) -> None:
        """The state of all ranks as it was given."""
        for lent in self._lent:
            lent.restore()

    def state(self) -> list[torch.Tensor]:
        """What the mutated arguments hold now, rank after rank."""
        return [tensor for lent in self._lent for tensor in lent.state()]

    def withdraw(self) -> None:
        """Overwrite what may only be read, on all ranks."""
        for lent in self._lent:
            lent.withdraw()

    def changed(self) -> list[int]:
        """Positions, among the arguments of a rank, of read-only arguments that were written on any of them."""
        return sorted({position for lent in self._lent for position in lent.changed()})

    def share(self) -> tuple[dict[str, Any], list[int]]:
        """The set as data a rank, and what all ranks share; each with how many of the descriptors are its own."""
        ranks, descriptors = [], []
        for rank, lent in enumerate(self._lent):
            with self._device.on(rank):
                data, own = lent.share()
            ranks.append({"set": data, "descriptors": len(own)})
            descriptors += own
        blocks, shared = self._memory.share()
        comm = {"blocks": blocks, "bytes": self._memory.workspace_bytes, "descriptors": len(shared)}
        return {"ranks": ranks, "comm": comm}, [*descriptors, *shared]

    def read(self, headers: Sequence[TensorHeader]) -> list[torch.Tensor]:
        """The outputs of all ranks, as copies."""
        by_rank = zip(self._lent, parts(headers, len(self._lent)), strict=True)
        return [tensor for lent, own in by_rank for tensor in lent.read(own)]

    def close(self) -> None:
        """Give the memory back."""
        for rank, lent in enumerate(self._lent):
            with self._device.on(rank):
                lent.close()
        if self._memory.leave():
            self._device.forget(self._memory)
