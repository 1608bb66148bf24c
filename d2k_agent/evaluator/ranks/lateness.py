"""Which rank is held up in a call, at which kind of place, and where: drawn so that few calls leave little untried."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

_Card = TypeVar("_Card")
_PARTS = 4
"""Equal parts of the places in a call, as the call before had them."""


@dataclass(frozen=True)
class Late:
    """The rank that is held up; and where, as HoldUps.within() has it."""

    rank: int
    kind: str
    share: float


class Lateness:
    """Draws of which nobody can foresee the place: who counts cards may know the rank or the part of a call at times.

    They are no throws of dice, which leave out for long what a wrong kernel needs to be seen, but cards: all of a pack
    come before it is shuffled again. One pack has ranks and kinds; for each of these another one has parts of a call.
    """

    def __init__(self, ranks: int) -> None:
        self._ranks = ranks
        self._who: dict[str, _Pack[tuple[int, str]]] = {}
        self._where: dict[tuple[int, str], _Pack[int]] = {}

    def draw(self, mostly: str) -> Late:
        """Three quarters of a rank's cards are of the kind `mostly`: "load" or "store"."""
        kinds = (mostly, mostly, "load", "store")
        cards = [(rank, kind) for rank in range(self._ranks) for kind in kinds]
        rank, kind = self._who.setdefault(mostly, _Pack(cards)).draw()
        part = self._where.setdefault((rank, kind), _Pack(range(_PARTS))).draw()
        return Late(rank, kind, (part + secrets.SystemRandom().random()) / _PARTS)


class _Pack(Generic[_Card]):
    def __init__(self, cards: Sequence[_Card]) -> None:
        self._cards, self._left = cards, list[_Card]()

    def draw(self) -> _Card:
        if not self._left:
            self._left = secrets.SystemRandom().sample(self._cards, len(self._cards))
        return self._left.pop()
