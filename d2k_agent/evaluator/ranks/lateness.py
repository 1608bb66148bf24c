"""Which rank is held up in a call, at which kind of place, and where: drawn so that few calls leave little untried."""

from __future__ import annotations

import secrets
from dataclasses import dataclass

_STEP = (5**0.5 - 1) / 2
"""Multiples of the golden ratio, without their whole parts, are spread evenly however many of them there are."""


@dataclass(frozen=True)
class Late:
    """The rank that is held up; and where, as HoldUps.within() has it."""

    rank: int
    kind: str
    share: float


class Lateness:
    """Draws that nobody can foresee.

    They are no throws of dice, which leave out for long what a wrong kernel needs to be seen. Ranks and kinds come as
    cards: all of them before the pack is shuffled again. The places of each go round evenly, from one drawn at first.
    """

    def __init__(self, ranks: int) -> None:
        self._ranks, self._random = ranks, secrets.SystemRandom()
        self._packs: dict[str, list[tuple[int, str]]] = {}
        self._shares: dict[tuple[int, str], float] = {}

    def draw(self, mostly: str) -> Late:
        """Of each pack, three quarters of a rank's cards are of the kind `mostly`: "load" or "store"."""
        pack = self._packs.setdefault(mostly, [])
        if not pack:
            pack += [(rank, kind) for rank in range(self._ranks) for kind in (mostly, mostly, "load", "store")]
            self._random.shuffle(pack)
        card = pack.pop()
        self._shares[card] = (self._shares.get(card, self._random.random()) + _STEP) % 1
        return Late(*card, self._shares[card])
