"""Group E02: output of any size, in flat memory, with both ends kept and the loss counted."""

from __future__ import annotations

import resource

import pytest
from hypothesis import given
from hypothesis import strategies as st

from d2k_agent.sandbox import Captured, Sandbox
from d2k_agent.sandbox.capture import HeadTail

KEEP = 10_000


def peak_kib() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def test_an_endless_stream_is_cut_in_flat_memory(box: Sandbox) -> None:
    before = peak_kib()
    completed = box.run(["yes"], limit_s=1, output_bytes=KEEP)
    assert completed.timed_out
    assert completed.stdout.dropped_bytes > 1_000_000
    assert len(completed.stdout.head + completed.stdout.tail) == KEEP
    assert peak_kib() - before < 20_000


def test_one_line_of_300_mb(box: Sandbox) -> None:
    before = peak_kib()
    command = "head -c 300000000 /dev/zero | tr '\\0' 'A'; echo end"
    completed = box.run(["/bin/bash", "-c", command], limit_s=60, output_bytes=KEEP)
    assert completed.stdout.head == b"A" * (KEEP // 2)
    assert completed.stdout.tail.endswith(b"Aend\n")
    assert completed.stdout.dropped_bytes == 300_000_004 - KEEP
    assert peak_kib() - before < 20_000


def test_the_first_and_the_last_lines_survive(box: Sandbox) -> None:
    program = "print('\\n'.join(map(str, range(2000000))))"
    completed = box.run(["python3", "-c", program], limit_s=60, output_bytes=KEEP)
    assert completed.stdout.head.startswith(b"0\n1\n2\n")
    assert completed.stdout.tail.endswith(b"\n1999998\n1999999\n")


def test_the_streams_do_not_crowd_each_other_out(box: Sandbox) -> None:
    program = "import sys; sys.stderr.write('E' * 5000000); print('the answer is 42')"
    completed = box.run(["python3", "-c", program], limit_s=60, output_bytes=KEEP)
    assert completed.stdout == Captured(b"the answer is 42\n")
    assert completed.stderr.dropped_bytes == 5_000_000 - KEEP


@given(st.lists(st.binary(max_size=50)), st.integers(1, 60))
def test_what_is_kept_and_what_is_dropped_make_up_the_stream(parts: list[bytes], limit: int) -> None:
    stream, kept = b"".join(parts), HeadTail(limit)
    for part in parts:
        kept.feed(part)
    captured = kept.captured()
    size = len(captured.head) + len(captured.tail)
    assert size == min(limit, len(stream))
    assert size + captured.dropped_bytes == len(stream)
    assert stream.startswith(captured.head)
    assert stream.endswith(captured.tail)


@given(st.binary(max_size=80), st.integers(1, 60), st.integers(0, 60))
def test_keeping_less_of_it_later(stream: bytes, limit: int, smaller: int) -> None:
    kept = HeadTail(limit)
    kept.feed(stream)
    captured = kept.captured().limited(smaller)
    size = len(captured.head) + len(captured.tail)
    assert size <= smaller or size <= limit <= smaller
    assert size + captured.dropped_bytes == len(stream)
    assert stream.startswith(captured.head)
    assert stream.endswith(captured.tail)


@pytest.mark.parametrize("size", [0, 1, KEEP, KEEP + 1])
def test_at_the_edge_of_the_limit(box: Sandbox, size: int) -> None:
    completed = box.run(["head", "-c", str(size), "/dev/zero"], limit_s=20, output_bytes=KEEP)
    assert completed.stdout.dropped_bytes == max(0, size - KEEP)
