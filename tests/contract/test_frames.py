"""Frames pass whole, and neither side waits beyond its deadline for the other."""

from __future__ import annotations

import os
import threading
import time

import pytest

from d2k_agent.contract.frames import FrameTimeout, read_frame, write_frame


@pytest.mark.parametrize("timed", [False, True])
def test_a_frame_larger_than_a_pipe_passes_whole(timed: bool) -> None:
    out, into = os.pipe()
    payload = bytes(range(256)) * 4096
    deadline = time.monotonic() + 60 if timed else None
    writer = threading.Thread(target=write_frame, args=(into, b"J", payload, deadline))
    writer.start()
    assert read_frame(out, deadline=deadline) == (b"J", payload)
    writer.join()
    os.close(into)
    assert read_frame(out) is None
    os.close(out)


def test_nobody_waits_beyond_a_deadline() -> None:
    out, into = os.pipe()
    began = time.monotonic()
    with pytest.raises(FrameTimeout, match="no answer before the deadline"):
        read_frame(out, deadline=began + 0.1)
    with pytest.raises(FrameTimeout, match="it was not read before the deadline"):
        write_frame(into, b"J", bytes(1 << 20), began + 0.2)
    assert time.monotonic() - began < 10
    os.close(into)
    with pytest.raises(FrameTimeout, match="it was not read"):  # what is past is past, whoever reads
        write_frame(out, b"J", b"", began)
    os.close(out)
