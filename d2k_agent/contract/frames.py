"""Frames over a pipe or a socket: one kind byte, a length, the payload. Both ends of every channel of ours speak this.

Covers whole reads and writes with a size bound and an optional deadline. Does not interpret a payload.
"""

from __future__ import annotations

import os
import select
import struct
import time

HEADER = struct.Struct("<cQ")


class FrameError(Exception):
    """The other side closed in the middle of a frame, or announced one above the bound."""


class FrameTimeout(FrameError):
    """The other side did not answer, or did not read, before the deadline."""


def write_frame(descriptor: int, kind: bytes, payload: bytes, deadline: float | None = None) -> None:
    """Write one frame whole. Raises BrokenPipeError when the reader is gone.

    `deadline` is a time.monotonic() value. Raises FrameTimeout past it.
    """
    write_whole(descriptor, HEADER.pack(kind, len(payload)) + payload, deadline)


def write_whole(descriptor: int, data: bytes, deadline: float | None = None) -> None:
    """Write all of `data`, as write_frame writes a frame."""
    rest = memoryview(data)
    while rest:
        part = rest
        if deadline is not None:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([], [descriptor], [], left)[1]:
                raise FrameTimeout("it was not read before the deadline")
            part = rest[: select.PIPE_BUF]  # so much is taken at once where anything is
        rest = rest[os.write(descriptor, part) :]


def read_frame(descriptor: int, max_bytes: int = 1 << 28, deadline: float | None = None) -> tuple[bytes, bytes] | None:
    """Read one frame, (kind, payload), or None when the other side closed between frames.

    `deadline` is a time.monotonic() value. Raises FrameTimeout past it, FrameError on a cut or oversized frame.
    """
    header = _read_exactly(descriptor, HEADER.size, deadline)
    if not header:
        return None
    kind, length = HEADER.unpack(header)
    if length > max_bytes:
        raise FrameError(f"a frame of {length} bytes was announced, {max_bytes} are allowed")
    payload = _read_exactly(descriptor, length, deadline) if length else b""
    if len(payload) < length:
        raise FrameError("the other side closed in the middle of a frame")
    return kind, payload


def _read_exactly(descriptor: int, count: int, deadline: float | None) -> bytes:
    parts: list[bytes] = []
    missing = count
    while missing:
        if deadline is not None:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([descriptor], [], [], left)[0]:
                raise FrameTimeout("no answer before the deadline")
        try:
            part = os.read(descriptor, min(missing, 1 << 20))
        except ConnectionResetError:
            part = b""
        if not part:
            if parts:
                raise FrameError("the other side closed in the middle of a frame")
            return b""
        parts.append(part)
        missing -= len(part)
    return b"".join(parts)
