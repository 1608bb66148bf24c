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

    `arguments` are the supervisor's own, as of the last refresh(). Those at the positions `mutated` are the state that
    calls may change; the others may only be read.
    """

    def __init__(
        self,
        reserve: Callable[[str, int], Block],
        arguments: Sequence[Any],
        outputs: Sequence[TensorHeader],
        mutated: Sequence[int] = (),
    ) -> None:
        self._mutated = list(mutated)
        self._described = layout.describe_arguments(list(arguments))
        tensors = [layout.header_of(value) for value in arguments if isinstance(value, torch.Tensor)]
        _, input_bytes = layout.offsets(tensors)
        _, answer_bytes = layout.offsets(list(outputs))
        self.arguments: list[Any] = []
        with ExitStack() as reserved:
            self._inputs = reserve("inputs", input_bytes)
            reserved.callback(self._inputs.close)
            self._answers = reserve("answers", answer_bytes)
            reserved.callback(self._answers.close)
            self.refresh(arguments)
            reserved.pop_all()  # the blocks stay, until close()

    def _views(self) -> list[Any]:
        """The arguments as they are in the block now, tensors over its memory."""
        return layout.attach_arguments(self._inputs.contents, self._described)

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
        self.arguments = [value.detach() if isinstance(value, torch.Tensor) else value for value in arguments]
        self.rewrite()

    def rewrite(self) -> None:
        """Write the same contents again, and poison the answers. For calls, all is as they left it."""
        for place, given in zip(self._views(), self.arguments, strict=True):
            if isinstance(given, torch.Tensor):
                place.copy_(given)
        self._answers.contents.fill_(POISON)

    def restore(self) -> None:
        """Write the state as it was given again. Nothing else is touched."""
        views = self._views()
        for position in self._mutated:
            views[position].copy_(self.arguments[position])

    def state(self) -> list[torch.Tensor]:
        """What the mutated arguments hold now, as copies of the supervisor's own."""
        views = self._views()
        return [views[position].clone() for position in self._mutated]

    def withdraw(self) -> None:
        """Overwrite what may only be read: what was not computed by now cannot be computed any more.

        The state stays. refresh() or rewrite() must follow.
        """
        for position, view in enumerate(self._views()):
            if isinstance(view, torch.Tensor) and position not in self._mutated:
                _bytes(view).fill_(POISON)

    def changed(self) -> list[int]:
        """Positions of read-only arguments whose bytes are no longer those of the last refresh()."""
        return [
            position
            for position, (now, before) in enumerate(zip(self._views(), self.arguments, strict=True))
            if isinstance(now, torch.Tensor)
            and position not in self._mutated
            and not torch.equal(_bytes(now), _bytes(before))
        ]

    def share(self) -> tuple[dict[str, Any], list[int]]:
        """The set as data for the candidate, and the file descriptors to send along."""
        inputs, first = self._inputs.share()
        answers, second = self._answers.share()
        shared = {"arguments": self._described, "mutated": self._mutated, "inputs": inputs, "answers": answers}
        return shared, [*first, *second]

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
