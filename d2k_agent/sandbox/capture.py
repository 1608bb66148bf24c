"""The beginning and the end of a stream of any length, in bounded memory."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Captured:
    """What was kept of a stream: its first and last bytes, and how many between them were dropped."""

    head: bytes
    tail: bytes = b""
    dropped_bytes: int = 0

    def limited(self, size: int) -> Captured:
        """The same with at most `size` bytes kept, half of them from the beginning."""
        kept = len(self.head) + len(self.tail)
        if kept <= size:
            return self
        everything = self.head + self.tail
        tail_size = min(size // 2, len(self.tail)) if self.dropped_bytes else size // 2
        head_size = min(size - tail_size, len(self.head)) if self.dropped_bytes else size - tail_size
        tail = everything[kept - tail_size :]
        return Captured(everything[:head_size], tail, self.dropped_bytes + kept - head_size - tail_size)


class HeadTail:
    """Collects a stream and keeps `limit` bytes of it: half from the beginning, half from the end."""

    def __init__(self, limit: int) -> None:
        self._head_size = limit - limit // 2
        self._tail_size = limit // 2
        self._head = bytearray()
        self._tail = bytearray()
        self._dropped = 0

    def feed(self, data: bytes) -> None:
        """Take the next bytes of the stream."""
        space = self._head_size - len(self._head)
        self._head += data[:space]
        self._tail += data[max(space, 0) :]
        if len(self._tail) > 2 * self._tail_size + (1 << 16):
            self._trim()

    def captured(self) -> Captured:
        """What has been kept so far."""
        self._trim()
        return Captured(bytes(self._head), bytes(self._tail), self._dropped)

    def _trim(self) -> None:
        excess = len(self._tail) - self._tail_size
        if excess > 0:
            del self._tail[:excess]
            self._dropped += excess
