"""The CUDA device: inputs lent by CUDA IPC from blocks of their own, kernels run and timed on the GPU."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch

from d2k_agent.contract.rotation import MOST_SETS
from d2k_agent.evaluator.devices import driver
from d2k_agent.evaluator.devices.lending import Lent
from d2k_agent.evaluator.devices.nvml import Gpu, Load
from d2k_agent.evaluator.layout import TensorHeader

GRANULE_BYTES = 2 << 20
"""The driver cuts smaller blocks from a larger one, and what is lent is the larger one: whole granules stand alone."""


class GpuMemory:
    """A block of its own from the driver: sharing it shares nothing beside it."""

    def __init__(self, name: str, size: int) -> None:
        self._pointer, self._size = _reserve(-(-size // GRANULE_BYTES) * GRANULE_BYTES), size
        self.contents = driver.as_tensor(self._pointer, size)

    def share(self) -> tuple[dict[str, Any], list[int]]:
        """The handle under which another process of this user attaches the block, and its size in bytes."""
        torch.cuda.synchronize()  # what was written here is there before the other process is told to look
        return {"handle": driver.handle_of(self._pointer).hex(), "bytes": self._size}, []

    def close(self) -> None:
        """Give the memory back."""
        torch.cuda.synchronize()
        driver.release(self._pointer)


def _reserve(size: int) -> int:
    try:
        return driver.allocate(size)
    except torch.OutOfMemoryError:
        torch.cuda.empty_cache()
        return driver.allocate(size)


class CudaDevice:
    """The first GPU that this process sees."""

    name = "cuda"
    times = True
    most_sets = MOST_SETS
    granule_bytes = GRANULE_BYTES

    def __init__(self) -> None:
        torch.zeros(1, device="cuda")  # makes the context current, in which driver.py allocates
        properties = torch.cuda.get_device_properties(0)
        self._name = str(properties.name)
        self.l2_bytes = int(properties.L2_cache_size)
        self.memory_bytes = int(properties.total_memory)
        self._gpu = Gpu(str(properties.uuid))
        self.uuids: tuple[str, ...] = (self._gpu.uuid,)

    def describe(self) -> str:
        """The GPU's name, as the driver gives it."""
        return self._name

    def details(self) -> dict[str, Any]:
        """Which GPU it is, its sizes, and the CUDA version that PyTorch was built for."""
        return {
            "uuid": self._gpu.uuid,
            "memory_bytes": self.memory_bytes,
            "l2_bytes": self.l2_bytes,
            "cuda": torch.version.cuda,
        }

    @functools.cache  # noqa: B019 - a device lives as long as its process
    def driver(self) -> str | None:
        """The driver's version."""
        return self._gpu.driver()

    def lend(self, arguments: Sequence[Any], outputs: Sequence[TensorHeader], mutated: Sequence[int] = ()) -> Lent:
        """Reserve blocks of GPU memory for arguments and outputs of these shapes."""
        lent = Lent(GpuMemory, arguments, outputs, mutated)
        self.settle()
        return lent

    def settle(self) -> None:
        """Wait for every stream of the GPU."""
        torch.cuda.synchronize()

    def flush(self) -> None:
        """Write twice the L2 cache."""
        torch.full((2 * self.l2_bytes,), 0, dtype=torch.uint8, device="cuda")
        self.settle()

    def trim(self) -> None:
        """Empty PyTorch's cache."""
        torch.cuda.empty_cache()

    def others_bytes(self) -> int | None:
        """By the driver."""
        free, total = torch.cuda.mem_get_info()
        return int(total - free - torch.cuda.memory_reserved())

    def load(self) -> Load:
        """SM clock and power, by the management library."""
        return self._gpu.load()
