"""What the supervisor lends to all ranks: each one's signal pad, its workspace, and a guard that nobody may write."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import Any

from d2k_agent.evaluator.devices.base import Block
from d2k_agent.evaluator.devices.cpu import SharedMemory
from d2k_agent.evaluator.devices.lending import POISON

SIGNALS = 4096
"""Words of four bytes in a signal pad. They are zero before the first call, and keep what calls leave in them."""
PAD_BYTES = 4 * SIGNALS
GUARD_BYTES = 1 << 16
"""Behind a workspace: a kernel that needs more than it was given writes here first."""
MEETING_BYTES = 4096


class Symmetric:
    """One block a rank, by `reserve(name, bytes)` in the rank's place. It is given back with the last that holds it.

    What a workspace holds does not survive from one checked call to the next: poison() fills it with NaN.
    """

    def __init__(
        self,
        reserve: Callable[[str, int], Block],
        on: Callable[[int], AbstractContextManager[Any]],
        world: int,
        workspace_bytes: int,
    ) -> None:
        self.workspace_bytes = workspace_bytes
        self._on, self._end = on, PAD_BYTES + workspace_bytes
        self._holders = 0
        self._blocks: list[Block] = []
        with ExitStack() as reserved:
            for rank in range(world):
                with on(rank):
                    block = reserve("workspace", self._end + GUARD_BYTES)
                    reserved.callback(block.close)
                    block.contents[:PAD_BYTES].zero_()
                    self._blocks.append(block)
            self._meeting = SharedMemory("meeting", MEETING_BYTES)
            reserved.pop_all()
        self.poison()

    def poison(self) -> None:
        """Overwrite all workspaces and guards, while no rank runs."""
        for block in self._blocks:
            block.contents[PAD_BYTES:].fill_(POISON)

    def overrun(self) -> list[int]:
        """The ranks behind whose workspaces something was written since poison()."""
        return [rank for rank, block in enumerate(self._blocks) if bool((block.contents[self._end :] != POISON).any())]

    def share(self) -> tuple[list[dict[str, Any]], list[int]]:
        """The blocks as data for a candidate, and the file descriptors to send along, those of the meeting last."""
        shared, descriptors = [], []
        for rank, block in enumerate(self._blocks):
            with self._on(rank):
                data, own = block.share()
            shared.append(data)
            descriptors += own
        return shared, [*descriptors, *self._meeting.share()[1]]

    def hold(self) -> None:
        """One more holds it."""
        self._holders += 1

    def leave(self) -> bool:
        """One holds it no more; True, and all memory given back, where that was the last."""
        self._holders -= 1
        if self._holders:
            return False
        for rank, block in enumerate(self._blocks):
            with self._on(rank):
                block.close()
        self._meeting.close()
        return True


def positions_of(flat: Sequence[int], rank: int, each: int) -> list[int]:
    """Positions among the arguments of a rank, of positions in a row that begins with the bytes of workspace."""
    first = 1 + rank * each
    return [position - first for position in flat if first <= position < first + each]
