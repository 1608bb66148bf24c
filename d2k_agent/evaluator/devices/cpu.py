"""The CPU device: inputs lent through a sealed memfd, kernels interpreted by Triton. Correctness only, no latency."""

from __future__ import annotations

import fcntl
import mmap
import os
import platform
from collections.abc import Sequence
from typing import Any

import torch

from d2k_agent.evaluator.devices.lending import Lent
from d2k_agent.evaluator.devices.nvml import Load
from d2k_agent.evaluator.layout import TensorHeader


class SharedMemory:
    """A block of a memfd. Sealed against resizing: a candidate could otherwise crash the supervisor."""

    def __init__(self, name: str, size: int) -> None:
        self._descriptor = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(self._descriptor, size)
        fcntl.fcntl(self._descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
        self.mapping = mmap.mmap(self._descriptor, size)
        self.contents = torch.frombuffer(self.mapping, dtype=torch.uint8)

    def share(self) -> tuple[dict[str, Any], list[int]]:
        """The memfd."""
        return {}, [self._descriptor]

    def close(self) -> None:
        """Close the memfd; the mapping goes with its tensors."""
        os.close(self._descriptor)


class CpuDevice:
    """Interprets kernels with Triton's interpreter on this machine's processor."""

    name = "cpu"
    times = False
    uuids: tuple[str, ...] = ()
    l2_bytes = 0
    granule_bytes = 1
    most_sets = 4  # two descriptors each, and a message carries eight

    def describe(self) -> str:
        """The processor in words."""
        return f"{platform.machine()} CPU (Triton interpreter)"

    def details(self) -> dict[str, Any]:
        """Nothing."""
        return {}

    def driver(self) -> str | None:
        """None: a processor has no driver."""
        return None

    def lend(self, arguments: Sequence[Any], outputs: Sequence[TensorHeader], mutated: Sequence[int] = ()) -> Lent:
        """Reserve memfds for arguments and outputs of these shapes."""
        return Lent(SharedMemory, arguments, outputs, mutated)

    def settle(self) -> None:
        """A processor has written when it has written."""

    def flush(self) -> None:
        """Nothing is timed here."""

    def trim(self) -> None:
        """PyTorch keeps nothing of a processor's memory."""

    def others_bytes(self) -> int | None:
        """None: everybody uses a processor's memory."""
        return None

    def load(self) -> Load:
        """Unknown."""
        return Load(None, None)
