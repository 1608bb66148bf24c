"""The interface behind which a CPU and a GPU look alike to the judge."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import torch

from d2k_agent.evaluator.devices.lending import Lent
from d2k_agent.evaluator.devices.nvml import Load
from d2k_agent.evaluator.layout import TensorHeader


class Block(Protocol):
    """Memory of the supervisor that a candidate's process can map."""

    contents: torch.Tensor
    """The memory as bytes: uint8, one dimension, on the device."""

    def share(self) -> tuple[dict[str, Any], list[int]]:
        """What the other process needs to map it: data (inside.open_block reads it) and file descriptors."""

    def close(self) -> None:
        """Give the memory back."""


class Device(Protocol):
    """A place where candidates run.

    `name` is cpu or cuda, `times` says whether latencies are measured there, `uuids` name its GPUs (empty: it is none).
    `l2_bytes` is the size of its last cache, `most_sets` bounds the sets that can be lent at a time, and a block takes
    whole `granule_bytes`.
    """

    name: str
    times: bool
    uuids: tuple[str, ...]
    l2_bytes: int
    most_sets: int
    granule_bytes: int

    def describe(self) -> str:
        """The device in words, for the verdict's environment."""

    def details(self) -> dict[str, Any]:
        """What else a reader of a verdict needs to know of the device."""

    def driver(self) -> str | None:
        """The driver's version, None where there is none."""

    def lend(self, arguments: Sequence[Any], outputs: Sequence[TensorHeader], mutated: Sequence[int] = ()) -> Lent:
        """Reserve blocks for arguments of these shapes and for the outputs expected of them; fill in the arguments.

        Calls may change the arguments at the positions `mutated`.

        Raises MemoryError or torch.OutOfMemoryError.
        """

    def settle(self) -> None:
        """Return when all that this process wrote there is written."""

    def flush(self) -> None:
        """Fill the last cache with other data, so that what was written before comes from memory."""

    def trim(self) -> None:
        """Give back memory that this process keeps for later: a candidate may need it."""

    def others_bytes(self) -> int | None:
        """Bytes of its memory in use now, less what this process's PyTorch keeps; None where nobody counts."""

    def load(self) -> Load:
        """Clock and power at this moment."""
