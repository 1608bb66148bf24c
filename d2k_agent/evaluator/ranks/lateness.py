"""Which rank is held up in a call, at which kind of place, and where: drawn so that few calls leave little untried."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

_PARTS = 4
"""Of all places in a call: each is tried before any is tried again."""


@dataclass(frozen=True)
class Late:
    """The rank that is held up; and where, as HoldUps.within() has it."""

    rank: int
    kind: str
    share: float


class Lateness:
    """Draws that nobody can foresee.

    They are no throws of dice, which leave out for long what a wrong kernel needs to be seen, but cards: all of a pack
    come before it is shuffled again. One pack has ranks and kinds; for each of these another one has parts of a call.
    """

    def __init__(self, ranks: int) -> None:
        self._ranks, self._random = ranks, secrets.SystemRandom()
        self._packs: dict[Any, list[Any]] = {}

    def draw(self, mostly: str) -> Late:
        """Three quarters of a rank's cards are of the kind `mostly`: "load" or "store"."""
        kinds = (mostly, mostly, "load", "store")
        rank, kind = self._card(mostly, ((rank, kind) for rank in range(self._ranks) for kind in kinds))
        part = self._card((rank, kind), range(_PARTS))
        return Late(rank, kind, (part + self._random.random()) / _PARTS)

    def _card(self, pack: Any, cards: Iterable[Any]) -> Any:
        left = self._packs.setdefault(pack, [])
        if not left:
            left += cards
            self._random.shuffle(left)
        return left.pop()
