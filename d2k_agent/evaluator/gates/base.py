"""What a gate is given and what it answers."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
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


def is_number(value: Any) -> bool:
    """True for a finite number of at least 0; true and false are none."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= sys.float_info.max


@dataclass(frozen=True)
class Option:
    """What may be said with a key of a gate: `told` in words, as in "must be ..."."""

    told: str
    fits: Callable[[Any], bool]


NUMBER = Option("a finite number of at least 0", is_number)
SHARE = Option("a number from 0 to less than 1", lambda value: is_number(value) and value < 1)
SWITCH = Option("true or false", lambda value: isinstance(value, bool))
EXTENTS = Option(
    "a list of whole numbers of at least 0, one for each dimension",
    lambda value: isinstance(value, list) and bool(value) and all(type(n) is int and n >= 0 for n in value),
)


@dataclass(frozen=True)
class Kind:
    """A gate kind, and what a task says to use it.

    `numbers`, `functions` of check.py and other `outputs` are asked for; `optional` ones may be there, and so may the
    `general` ones, which comparing.py obeys.
    """

    decide: Callable[[Compared], Found]
    numbers: tuple[str, ...] = ()
    optional: Mapping[str, Option] = field(default_factory=dict)
    functions: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    general: tuple[str, ...] = ("rows", "expect", "change")


def comparable(tensor: torch.Tensor) -> torch.Tensor:
    """The same values in a type that PyTorch compares: it compares no floats of one byte."""
    return tensor.float() if tensor.is_floating_point() and tensor.itemsize == 1 else tensor


def same(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Which elements have the same value, NaN being like NaN and zeros of both signs alike."""
    one, other = comparable(one), comparable(other)
    return (one == other) | ((one != one) & (other != other))


def position(where: torch.Tensor) -> list[int]:
    """The index of the first true element."""
    return [int(index) for index in torch.nonzero(where)[0]]
