"""Arguments that run() is asked to change: which they are, and what they hold after several calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from d2k_agent.evaluator.faults import TaskFault


def _adds(before: torch.Tensor, once: torch.Tensor, calls: int) -> torch.Tensor:
    """Every call adds what the other arguments determine. Floats in fp64, integers wrap."""
    if before.is_floating_point():
        return before.double() + calls * (once.double() - before.double())
    return (before.long() + calls * (once.long() - before.long())).to(before.dtype)


def _writes(before: torch.Tensor, once: torch.Tensor, calls: int) -> torch.Tensor:
    """Every call writes what the other arguments determine."""
    return once


EFFECTS: dict[str, Callable[[torch.Tensor, torch.Tensor, int], torch.Tensor]] = {"adds": _adds, "writes": _writes}
"""What calls do to an argument, by the name that a task uses: what it holds after so many of them, from what it held
before and after the first. Timed calls are checked by it, since they follow one another on the same set."""


@dataclass(frozen=True)
class Mutated:
    """An argument of run() that calls change, by name and position; gates name it as they name an output."""

    name: str
    position: int
    effect: str

    def after(self, before: torch.Tensor, once: torch.Tensor, calls: int) -> torch.Tensor:
        """What it holds after `calls` calls with the same other arguments."""
        return once if calls == 1 else EFFECTS[self.effect](before, once, calls)


def mutated_of(file: str, entries: Sequence[dict[str, Any]], parameters: Sequence[str]) -> list[Mutated]:
    """The task's `mutated_inputs` over the parameters of run(). Raises TaskFault for one that cannot be."""
    found = []
    for entry in entries:
        name, effect = entry.get("argument"), entry.get("effect")
        if not isinstance(name, str) or name not in parameters:
            raise TaskFault(f"{file}: mutated_inputs name {name!r}; the arguments of run() are {', '.join(parameters)}")
        if effect not in EFFECTS:
            raise TaskFault(f"{file}: the effect on {name} is {effect!r}; effects are {', '.join(EFFECTS)}")
        found.append(Mutated(name, list(parameters).index(name), effect))
    return found
