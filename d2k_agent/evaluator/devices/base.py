"""The interface behind which a CPU and a GPU look alike to the judge."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import torch

from d2k_agent.evaluator.layout import TensorHeader


class LentInputs(Protocol):
    """One set of inputs at fixed addresses that a candidate reads, and the room in which its answers are read."""

    def refresh(self, arguments: Sequence[Any]) -> None:
        """Draw new contents into the same addresses, and poison the room for answers."""

    def changed(self) -> list[int]:
        """Positions of the tensor arguments whose bytes are no longer those of the last refresh()."""

    def describe(self) -> list[dict[str, Any]]:
        """The arguments as data for the candidate (layout.describe_arguments)."""

    def descriptors(self) -> list[int]:
        """File descriptors to send along: the block of inputs and the block of answers."""

    def read(self, headers: Sequence[TensorHeader]) -> list[torch.Tensor]:
        """The outputs that the candidate left, as tensors of the supervisor's own. Raises ValueError if too large."""

    def close(self) -> None:
        """Give the memory back."""


class Device(Protocol):
    """A place where candidates run. `name` is cpu or cuda; `times` says whether latencies are measured there."""

    name: str
    times: bool

    def describe(self) -> str:
        """The device in words, for the verdict's environment."""

    def lend(self, arguments: Sequence[Any], outputs: Sequence[TensorHeader]) -> LentInputs:
        """Reserve blocks for arguments of these shapes and for the outputs expected of them."""
