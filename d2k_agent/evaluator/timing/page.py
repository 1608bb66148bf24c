"""A page that supervisor and candidate share while calls are timed: looking at it costs less than a message does.

What the candidate writes there is a claim like any other. Words of four bytes: STOP ends a batch, GO begins the step of
that number, DONE says which step is finished.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable

STOP, GO, DONE = 0, 1, 2
BYTES = 4096


class Page:
    """The page over a mapping of at least twelve bytes."""

    def __init__(self, mapping: mmap.mmap) -> None:
        self._words = memoryview(mapping).cast("I")

    def __getitem__(self, word: int) -> int:
        return int(self._words[word])

    def __setitem__(self, word: int, value: int) -> None:
        self._words[word] = value

    def wait(self, word: int, value: int, ended: Callable[[], bool] = lambda: False) -> None:
        """Return once the word has that value, or once `ended` says so, which is asked now and then."""
        words, looks = self._words, 0
        while words[word] != value:
            looks += 1
            if looks % 1024 == 0 and ended():
                return

    def close(self) -> None:
        """Let go of the mapping."""
        self._words.release()
