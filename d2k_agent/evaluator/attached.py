"""A set of inputs and the room for its answers, as the candidate's process sees them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from d2k_agent.evaluator import layout
from d2k_agent.evaluator.metering import STORAGE

_COPY, _FILL = torch.Tensor.copy_, torch.Tensor.fill_
"""As they were before any solution.py was there to replace them."""


@dataclass
class AttachedSet:
    """The arguments of run(), the lent block that their tensors lie in, and the block of answers (both uint8).

    Arguments at the positions `mutated` are state that calls may change; the others may only be read.
    """

    arguments: list[Any]
    inputs: torch.Tensor
    answers: torch.Tensor
    mutated: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        """PyTorch counts writes to an argument and all its views, but so far those of the whole block together."""
        self.arguments = [value.data if isinstance(value, torch.Tensor) else value for value in self.arguments]

    def writes(self) -> dict[int, int]:
        """How often operators of PyTorch wrote so far to each argument that may only be read, by position."""
        with torch._C.DisableTorchFunction():  # noqa: SLF001 - as in own()
            return {
                position: value._version  # noqa: SLF001 - PyTorch's documented count has no other name
                for position, value in enumerate(self.arguments)
                if isinstance(value, torch.Tensor) and position not in self.mutated
            }

    def answer(self, outputs: Sequence[torch.Tensor]) -> tuple[layout.TensorHeader, ...]:
        """Copy outputs into the answers where they fit; their headers say in any case what they are."""
        headers = tuple(layout.header_of(output) for output in outputs)
        places, size = layout.offsets(list(headers))
        if size <= self.answers.numel():
            with torch._C.DisableTorchFunction():  # noqa: SLF001 - a mode has functions found anew by their names
                for output, header, offset in zip(outputs, headers, places, strict=True):
                    _COPY(layout.view(self.answers, header, offset), output)
        return headers

    def poison(self, outputs: Sequence[torch.Tensor]) -> None:
        """Overwrite outputs of an earlier call, so that handing them back again is a wrong answer."""
        for tensor in self.own(outputs):  # a returned input holds the new draw by now
            with torch.no_grad(), torch._C.DisableTorchFunction():  # noqa: SLF001 - as in answer()
                _FILL(tensor, float("nan") if tensor.is_floating_point() else tensor.dtype == torch.bool or 0x55)

    def own(self, outputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Those that do not lie in the memory of arguments."""
        with torch._C.DisableTorchFunction():  # noqa: SLF001 - a mode that a candidate left on would take it for its own
            lent = {STORAGE(value).data_ptr() for value in self.arguments if isinstance(value, torch.Tensor)}
            return [tensor for tensor in outputs if STORAGE(tensor).data_ptr() not in lent]


class Returned:
    """The memory that calls returned and that somebody still holds, which is not the evaluator once it lets go."""

    def __init__(self) -> None:
        self._held: dict[tuple[int, int], tuple[StorageWeakRef, int]] = {}
        """A storage while it lives, by its identity and the first byte of a result; and the byte behind the result."""

    def again(self, outputs: Sequence[torch.Tensor], given: AttachedSet) -> bool:
        """Whether any of these outputs of a call on `given` lies within the bytes of what an earlier call returned."""
        own = given.own(outputs)
        with torch._C.DisableTorchFunction():  # noqa: SLF001 - as in own()
            new = [(StorageWeakRef(STORAGE(tensor)), *extent(tensor)) for tensor in own]
        self._held = {key: held for key, held in self._held.items() if not held[0].expired()}
        found = any(
            storage.cdata == known and first < end and begin < last
            for storage, first, last in new
            for (known, begin), (_, end) in self._held.items()
        )
        for storage, first, last in new:
            _, known_last = self._held.get((storage.cdata, first), (storage, first))
            self._held[storage.cdata, first] = storage, max(last, known_last)
        return found


def extent(tensor: torch.Tensor) -> tuple[int, int]:
    """The first byte of a tensor within its storage, and the one behind its last."""
    reach = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    first = tensor.storage_offset()
    return first * tensor.itemsize, (first + reach + 1) * tensor.itemsize if tensor.numel() else first * tensor.itemsize


def outputs_of(result: Any) -> tuple[torch.Tensor, ...]:
    """What run() returned, as tensors. Raises TypeError for anything but a tensor, a tuple or a list of them."""
    outputs: tuple[Any, ...] = (result,)
    # Not by its own __iter__: that of a class of the candidate's own could compute.
    if isinstance(result, tuple):
        outputs = tuple(tuple.__iter__(result))
    elif isinstance(result, list):
        outputs = tuple(list.__iter__(result))
    for output in outputs:
        if type(output) is not torch.Tensor:
            raise TypeError(f"run() must return torch.Tensor, not {type(output).__name__}")
    return outputs
