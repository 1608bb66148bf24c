"""A set of inputs and the room for its answers, as the candidate's process sees them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from d2k_agent.evaluator import layout


@dataclass
class AttachedSet:
    """The arguments of run(), the lent block that their tensors lie in, and the block of answers (both uint8)."""

    arguments: list[Any]
    inputs: torch.Tensor
    answers: torch.Tensor

    def answer(self, outputs: Sequence[torch.Tensor]) -> tuple[layout.TensorHeader, ...]:
        """Copy outputs into the answers where they fit; their headers say in any case what they are."""
        headers = tuple(layout.header_of(output) for output in outputs)
        places, size = layout.offsets(list(headers))
        if size <= self.answers.numel():
            for output, header, offset in zip(outputs, headers, places, strict=True):
                layout.view(self.answers, header, offset).copy_(output)
        return headers

    def poison(self, outputs: Sequence[torch.Tensor]) -> None:
        """Overwrite outputs of an earlier call, so that handing them back again is a wrong answer."""
        lent = {value.untyped_storage().data_ptr() for value in self.arguments if isinstance(value, torch.Tensor)}
        for tensor in outputs:
            if tensor.untyped_storage().data_ptr() not in lent:  # a returned input holds the new draw by now
                with torch.no_grad():
                    tensor.fill_(float("nan") if tensor.is_floating_point() else tensor.dtype == torch.bool or 0x55)


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
