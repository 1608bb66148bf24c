"""A page that supervisor and candidate share while calls are timed: looking at it costs less than a message does.

What the candidate writes there is a claim like any other. Words of four bytes: STOP ends a batch, GO begins the step of
that number, DONE says which step is finished. Several ranks have a word each from DONE on, and one each from BEGUN on
for the calls that they have begun; LAST is how many calls a batch has in the end, for all of them.
"""

from __future__ import annotations

import mmap
import os
import time
from collections.abc import Callable

STOP, GO, DONE, LAST, BEGUN = 0, 1, 2, 16, 32
BYTES = 4096
_SEEN_S = 0.001
_LOOKS = 32


class Page:
    """The page of `ranks` candidates over a mapping of BYTES."""

    def __init__(self, mapping: mmap.mmap, ranks: int = 1) -> None:
        self._words = memoryview(mapping).cast("I")
        self._ranks = range(ranks)

    def __getitem__(self, word: int) -> int:
        return int(self._words[word])

    def __setitem__(self, word: int, value: int) -> None:
        self._words[word] = value

    def wait(self, word: int, value: int, ended: Callable[[], bool] = lambda: False) -> None:
        """Return once the word has that value, or once `ended` says so, which is asked now and then."""
        words, looks = self._words, 0
        while words[word] != value:
            looks += 1
            if looks % _LOOKS == 0:
                os.sched_yield()  # the other side may need this processor
            if looks % 1024 == 0 and ended():
                return

    def wait_done(self, step: int, ended: Callable[[], bool]) -> None:
        """Return once all ranks have finished that step, or once `ended` says so."""
        for rank in self._ranks:
            self.wait(DONE + rank, step, ended)

    def begin(self) -> None:
        """A batch may run on."""
        self[LAST] = 0
        self[STOP] = 0

    def stop(self) -> None:
        """End a batch: at once where there is one rank, else with a call that no rank has gone beyond.

        A rank tells of a call before it begins it, and looks at the flag before it tells: once the flag is seen, no
        rank is more than one call beyond what it told of.
        """
        self[STOP] = 1
        if len(self._ranks) > 1:
            time.sleep(_SEEN_S)
            self[LAST] = 1 + max(self[BEGUN + rank] for rank in self._ranks)

    def last(self) -> int:
        """How many calls a batch of several ranks has, which is told soon after the flag was raised."""
        while not self[LAST]:
            time.sleep(0)
        return self[LAST]

    def close(self) -> None:
        """Let go of the mapping."""
        self._words.release()
