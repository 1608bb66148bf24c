"""One set of inputs at fixed addresses that a candidate reads, and the room in which its answers are read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import torch

from d2k_agent.evaluator import layout
from d2k_agent.evaluator.faults import TaskFault
from d2k_agent.evaluator.layout import TensorHeader

if TYPE_CHECKING:
    from d2k_agent.evaluator.devices.base import Block

POISON = 0xFF  # NaN in every floating-point format of two bytes and more, -1 in integers


class Lent:
    """A set, over two blocks made by `reserve(name, bytes)`: the inputs and the answers.

    `arguments` are the supervisor's own, as of the last refresh().
    """

    def __init__(
        self, reserve: Callable[[str, int], Block], arguments: Sequence[Any], outputs: Sequence[TensorHeader]
    ) -> None:
        self._described = layout.describe_arguments(list(arguments))
        tensors = [layout.header_of(value) for value in arguments if isinstance(value, torch.Tensor)]
        _, input_bytes = layout.offsets(tensors)
        _, answer_bytes = layout.offsets(list(outputs))
        self.arguments: list[Any] = []
        self._pristine: list[torch.Tensor] = []
        with ExitStack() as reserved:
            self._inputs = reserve("inputs", input_bytes)
            reserved.callback(self._inputs.close)
            self._answers = reserve("answers", answer_bytes)
            reserved.callback(self._answers.close)
            self.refresh(arguments)
            reserved.pop_all()  # the blocks stay, until close()

    def _views(self) -> list[torch.Tensor]:
        attached = layout.attach_arguments(self._inputs.contents, self._described)
        return [value for value in attached if isinstance(value, torch.Tensor)]

    def refresh(self, arguments: Sequence[Any]) -> None:
        """Copy new contents into the same addresses, keep the arguments to compare with, and poison the answers.

        The caller must not change the arguments' tensors afterwards. Raises TaskFault where anything but the contents
        of tensors differs from the first arguments.
        """
        if layout.describe_arguments(list(arguments)) != self._described:
            raise TaskFault(
                "draws of one workload differ in more than the contents of tensors: numbers and shapes are "
                "the workload's, so take them from its parameters and not from the seed"
            )
        self.arguments = list(arguments)
        self._pristine = [value.detach() for value in arguments if isinstance(value, torch.Tensor)]
        for place, tensor in zip(self._views(), self._pristine, strict=True):
            place.copy_(tensor)
        self._answers.contents.fill_(POISON)

    def withdraw(self) -> None:
        """Overwrite the inputs: what was not computed by now cannot be computed any more. refresh() must follow."""
        self._inputs.contents.fill_(POISON)

    def changed(self) -> list[int]:
        """Positions of the tensor arguments whose bytes are no longer those of the last refresh()."""
        views = iter(zip(self._views(), self._pristine, strict=True))
        positions = []
        for position, item in enumerate(self._described):
            if "value" in item:
                continue
            now, before = next(views)
            if not torch.equal(_bytes(now), _bytes(before)):
                positions.append(position)
        return positions

    def share(self) -> tuple[dict[str, Any], list[int]]:
        """The set as data for the candidate, and the file descriptors to send along."""
        inputs, first = self._inputs.share()
        answers, second = self._answers.share()
        return {"arguments": self._described, "inputs": inputs, "answers": answers}, [*first, *second]

    def read(self, headers: Sequence[TensorHeader]) -> list[torch.Tensor]:
        """The outputs that the candidate left, as copies of the supervisor's own. Raises ValueError if too large."""
        places, size = layout.offsets(list(headers))
        if size > self._answers.contents.numel():
            raise ValueError("the outputs are larger than the expected ones")
        return [
            layout.view(self._answers.contents, header, place).clone()
            for header, place in zip(headers, places, strict=True)
        ]

    def close(self) -> None:
        """Give the memory back."""
        self._inputs.close()
        self._answers.close()


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    flat = tensor.contiguous().reshape(-1)
    return flat.view(torch.uint8) if tensor.numel() else flat.new_empty(0, dtype=torch.uint8)
