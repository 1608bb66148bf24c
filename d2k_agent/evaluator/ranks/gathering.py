"""The reference on all ranks at once, in threads of the supervisor: what its `comm` gathers is there by a barrier."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any, TypeVar

import torch

Result = TypeVar("Result")
_PATIENCE_S = 300.0
"""A reference whose ranks gather a different number of times would wait for ever."""


class _Board:
    """Where ranks leave what the others gather."""

    def __init__(self, world: int) -> None:
        self.barrier = threading.Barrier(world, timeout=_PATIENCE_S)
        self.slots: list[Any] = [None] * world


class Gathering:
    """The `comm` of a reference: `rank`, `world`, and all_gather()."""

    def __init__(self, rank: int, world: int, board: _Board) -> None:
        self.rank, self.world = rank, world
        self._board = board

    def all_gather(self, tensor: torch.Tensor) -> list[torch.Tensor]:
        """The tensors that all ranks gave, by rank, on the device of the own one. They may only be read."""
        self._board.slots[self.rank] = tensor
        self._board.barrier.wait()
        gathered = [given.to(tensor.device) for given in self._board.slots]
        self._board.barrier.wait()
        return gathered


def together(world: int, work: Callable[[Gathering], Result]) -> list[Result]:
    """What `work` gives on each rank, all of them at once. Raises what the first rank raised that failed by itself."""
    board = _Board(world)

    def guarded(rank: int) -> Result:
        with ExitStack() as failing:
            failing.callback(board.barrier.abort)
            result = work(Gathering(rank, world, board))
            failing.pop_all()
        return result

    with ThreadPoolExecutor(world) as pool:
        running = [pool.submit(guarded, rank) for rank in range(world)]
    failures = [problem for item in running if (problem := item.exception()) is not None]
    for problem in failures:
        if not isinstance(problem, threading.BrokenBarrierError):
            raise problem
    return [item.result() for item in running]
