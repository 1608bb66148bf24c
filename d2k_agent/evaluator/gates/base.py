"""What a gate is given and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

Found = tuple[float | None, float | None, bool, str]
"""Value (None: no number describes it), limit, whether it passed, and what is wrong in words."""
Ask = Callable[..., Any]
"""Calls a function of the task's check.py: its name, then its arguments."""


@dataclass(frozen=True)
class Answer:
    """What came of `calls` calls with the same arguments, as the supervisor read it, by name of output.

    arguments  of run(), as they were before the first call
    values     outputs of the last call, and what the mutated arguments hold after it
    expected   the same by the reference, the mutated arguments after as many calls
    before     what the mutated arguments held before the first call
    """

    arguments: Sequence[Any]
    values: Mapping[str, torch.Tensor]
    expected: Mapping[str, torch.Tensor]
    before: Mapping[str, torch.Tensor]
    calls: int = 1


@dataclass(frozen=True)
class Compared:
    """One output before one gate, reduced to the rows that the gate is for (`rows`: bool, None where it is for all)."""

    name: str
    gate: Mapping[str, Any]
    output: torch.Tensor
    expected: torch.Tensor
    answer: Answer
    ask: Ask
    rows: torch.Tensor | None = None

    @property
    def limit(self) -> float:
        """The gate's limit, 0 where it has none."""
        return float(self.gate.get("limit", 0.0))

    def select(self, tensor: torch.Tensor) -> torch.Tensor:
        """The rows of a tensor that the gate is for."""
        return tensor if self.rows is None else tensor[self.rows]


@dataclass(frozen=True)
class Kind:
    """A gate kind, and what a task says to use it.

    `numbers`, `functions` of check.py and other `outputs` are asked for; `optional` ones may be there, and so may the
    `general` ones, which comparing.py obeys.
    """

    decide: Callable[[Compared], Found]
    numbers: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    general: tuple[str, ...] = ("rows", "expect", "change")


def position(where: torch.Tensor) -> list[int]:
    """The index of the first true element."""
    return [int(index) for index in torch.nonzero(where)[0]]
