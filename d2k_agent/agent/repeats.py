"""Nothing is told twice: a passage that stands in the conversation already is named instead of repeated.

Covers: which passages stand there whole, and an answer without those. Does not cover: wording (reports). All follows
from the results that were recorded, so a resumed run shortens the same passages.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from d2k_agent.records import ToolFinished

LEAST_CHARS = 200
"""A shorter passage takes about as many tokens as naming it would."""
IN_PASSAGES = frozenset(("submit", "compile", "profile", "edit"))
"""Tools whose answers are made of passages, a blank line between two. Any other answer is one passage."""
_BLANK_LINE = "\n\n"
POINTER = "[as in "
"""How a pointer to a passage that was told begins; it ends with `]`."""
_POINTED_AT = re.compile(rf"{re.escape(POINTER)}([^\]\n]+)\]")


def place_of(name: str, turn: int) -> str:
    """An answer in words, as pointers name it."""
    return f"the answer to {name}, turn {turn}"


def places_named(text: str) -> frozenset[str]:
    """The places that pointers in `text` name."""
    return frozenset(_POINTED_AT.findall(text))


class Told:
    """The passages that were told and stand whole in the conversation, each with the place that it is first in."""

    def __init__(self) -> None:
        self._places: dict[bytes, _Place] = {}

    def open(self, text: str) -> None:
        """Note a text that the opening holds."""
        self._places.setdefault(_digest(text), _Place("the first message", None))

    def take(self, answer: ToolFinished) -> None:
        """Note what an answer holds."""
        place = _Place(place_of(answer.name, answer.turn), answer.call_id)
        for passage in _passages(answer.name, answer.text):
            if len(passage) >= LEAST_CHARS:
                self._places.setdefault(_digest(passage), place)

    def forget(self, call_ids: Collection[str]) -> None:
        """Leave out the answers to these calls: they do not stand whole any more."""
        self._places = {key: place for key, place in self._places.items() if place.call_id not in call_ids}

    def without_repeats(self, name: str, text: str) -> str:
        """The answer `text` of the tool `name`, with each passage that was told before named instead."""
        return _BLANK_LINE.join(self._named(passage) for passage in _passages(name, text))

    def _named(self, passage: str) -> str:
        place = self._places.get(_digest(passage)) if len(passage) >= LEAST_CHARS else None
        return passage if place is None else f"{POINTER}{place.name}]"


@dataclass(frozen=True)
class _Place:
    name: str
    call_id: str | None


def _passages(name: str, text: str) -> Iterator[str]:
    yield from text.split(_BLANK_LINE) if name in IN_PASSAGES else [text]


def _digest(passage: str) -> bytes:
    return hashlib.sha256(passage.rstrip("\n").encode()).digest()
