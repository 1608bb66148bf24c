"""The CPU device: inputs lent through a sealed memfd, kernels interpreted by Triton. Correctness only, no latency."""

from __future__ import annotations

import fcntl
import mmap
import os
import platform
from collections.abc import Sequence
from typing import Any

import torch

from d2k_agent.evaluator import layout
from d2k_agent.evaluator.layout import TensorHeader

_POISON = 0xFF  # NaN in every floating-point format of two bytes and more, -1 in integers


class CpuInputs:
    """LentInputs over two memfds. Sealed against resizing: a candidate could otherwise crash the supervisor."""

    def __init__(self, arguments: Sequence[Any], outputs: Sequence[TensorHeader]) -> None:
        self._described = layout.describe_arguments(list(arguments))
        tensors = [layout.header_of(value) for value in arguments if isinstance(value, torch.Tensor)]
        _, input_bytes = layout.offsets(tensors)
        _, answer_bytes = layout.offsets(list(outputs))
        self._input_fd, self._inputs = _block("inputs", input_bytes)
        self._answer_fd, self._answers = _block("answers", answer_bytes)
        self._pristine: list[torch.Tensor] = []
        self.refresh(arguments)

    def _views(self) -> list[torch.Tensor]:
        attached = layout.attach_arguments(self._inputs, self._described)
        return [value for value in attached if isinstance(value, torch.Tensor)]

    def refresh(self, arguments: Sequence[Any]) -> None:
        """Copy new contents into the same addresses; keep a private copy to compare with."""
        tensors = [value for value in arguments if isinstance(value, torch.Tensor)]
        self._pristine = [tensor.detach().clone() for tensor in tensors]
        for place, tensor in zip(self._views(), tensors, strict=True):
            place.copy_(tensor)
        self._answers.fill_(_POISON)

    def changed(self) -> list[int]:
        """Positions of tensor arguments that differ bit for bit from the private copy."""
        views = iter(zip(self._views(), self._pristine, strict=True))
        positions = []
        for position, item in enumerate(self._described):
            if "value" in item:
                continue
            now, before = next(views)
            if not torch.equal(_bytes(now), _bytes(before)):
                positions.append(position)
        return positions

    def describe(self) -> list[dict[str, Any]]:
        """The arguments as data."""
        return self._described

    def descriptors(self) -> list[int]:
        """The memfds of inputs and answers."""
        return [self._input_fd, self._answer_fd]

    def read(self, headers: Sequence[TensorHeader]) -> list[torch.Tensor]:
        """Copies of the outputs in the block of answers."""
        places, size = layout.offsets(list(headers))
        if size > self._answers.numel():
            raise ValueError("the outputs are larger than the expected ones")
        return [
            layout.view(self._answers, header, place).clone() for header, place in zip(headers, places, strict=True)
        ]

    def close(self) -> None:
        """Close both memfds; the mappings go with their tensors."""
        os.close(self._input_fd)
        os.close(self._answer_fd)


class CpuDevice:
    """Interprets kernels with Triton's interpreter on this machine's processor."""

    name = "cpu"
    times = False

    def describe(self) -> str:
        """The processor in words."""
        return f"{platform.machine()} CPU (Triton interpreter)"

    def lend(self, arguments: Sequence[Any], outputs: Sequence[TensorHeader]) -> CpuInputs:
        """Reserve memfds for arguments and outputs of these shapes."""
        return CpuInputs(arguments, outputs)


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().reshape(-1).view(torch.uint8) if tensor.numel() else torch.empty(0, dtype=torch.uint8)


def _block(name: str, size: int) -> tuple[int, torch.Tensor]:
    descriptor = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(descriptor, size)
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
    return descriptor, torch.frombuffer(mmap.mmap(descriptor, size), dtype=torch.uint8)
