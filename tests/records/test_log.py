"""The event log: what a crash, a full disk or a stranger's edit does to it."""

from __future__ import annotations

import json
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from d2k_agent.errors import MachineError
from d2k_agent.models import Usage
from d2k_agent.records import EventLog, ModelReplied, Nudged, TurnClosed, read_events


def nudge(number: int) -> Nudged:
    return Nudged(call=number, text=f"é {number}")


def write(path: Path, count: int) -> None:
    with EventLog(path) as log:
        for number in range(1, count + 1):
            log.append(nudge(number))


def test_events_come_back_in_order_with_number_and_time(tmp_path: Path) -> None:
    with EventLog(tmp_path / "events.jsonl") as log:
        (first,) = log.append(nudge(1))
        second, third = log.append(TurnClosed(turn=1, calls=2, executed=1), nudge(2), durable=False)
        assert log.size == (tmp_path / "events.jsonl").stat().st_size
        assert log.read() == [first, second, third]

    assert [event.seq for event in (first, second, third)] == [1, 2, 3]
    assert first.time is not None and second.time is not None and first.time <= second.time


def test_a_reader_goes_on_from_an_offset(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    write(path, 2)
    _, offset = read_events(path)
    with EventLog(path) as log:
        log.append(nudge(3))

    events, end = read_events(path, offset)
    assert [event.seq for event in events] == [3]
    assert end == path.stat().st_size


def test_a_line_torn_at_any_byte_is_cut_and_the_log_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    write(path, 3)
    whole = path.read_bytes()
    last = whole[:-1].rindex(b"\n") + 1

    for length in range(last, len(whole)):
        path.write_bytes(whole[:length])
        assert [event.seq for event in read_events(path)[0]] == [1, 2], "a reader leaves it out and changes nothing"
        assert path.stat().st_size == length
        with EventLog(path) as log:
            log.append(nudge(4))
        assert [event.seq for event in read_events(path)[0]] == [1, 2, 3]


def test_a_block_of_zeros_at_the_end_is_cut(tmp_path: Path) -> None:
    """What a power cut leaves of a block that was allocated and never written."""
    path = tmp_path / "events.jsonl"
    write(path, 2)
    with path.open("ab") as file:
        file.write(b"\0" * 100 + b"\n")

    with EventLog(path) as log:
        assert len(log.read()) == 2


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda lines: [lines[0], b"garbage\n", lines[2]], "event 2 .* cannot be read"),
        (lambda lines: [lines[0], lines[2]], "event 2 carries number 3"),
        (lambda lines: [*lines, lines[2]], "event 4 carries number 3"),
        (lambda lines: [lines[0].replace(b"nudged", b"unheard_of"), *lines[1:]], "event 1 .* cannot be read"),
        (lambda lines: [*lines[:2], lines[2].replace(b'"call"', b'"cull"')], "event 3 .* cannot be read"),
    ],
)
def test_damage_that_is_no_torn_line_is_told(tmp_path: Path, change: Any, problem: str) -> None:
    path = tmp_path / "events.jsonl"
    write(path, 3)
    path.write_bytes(b"".join(change(path.read_bytes().splitlines(keepends=True))))

    with pytest.raises(MachineError, match=problem) as error:
        EventLog(path)
    assert "restore" in str(error.value)


@pytest.mark.parametrize("value", [float("nan"), b"\xff", object(), "\udcff", {1, 2}])
def test_what_is_no_json_is_refused_by_name_and_not_written(tmp_path: Path, value: Any) -> None:
    with EventLog(tmp_path / "events.jsonl") as log:
        bad = ModelReplied(
            call=1, turn=1, message={"x": value}, finish_reason=None, usage=Usage.unknown(), cost_usd=None, seconds=0
        )
        with pytest.raises(ValueError, match="a model_replied event cannot be recorded"):
            log.append(nudge(1), bad)
        assert log.read() == []
        log.append(nudge(1))
        assert [event.seq for event in log.read()] == [1]


@contextmanager
def no_space_beyond(size: int) -> Iterator[None]:
    """The system refuses to make a file larger than this: the same to a writer as a full disk or a quota."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_is_a_sentence_and_the_log_stays_whole(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    with EventLog(path) as log:
        log.append(nudge(1))
        before = path.read_bytes()
        with no_space_beyond(log.size + 20), pytest.raises(MachineError, match="no space is left") as error:
            log.append(nudge(2))
        assert "free" in str(error.value) and str(path) in str(error.value)
        assert path.read_bytes() == before, "half an event is taken back"
        log.append(nudge(2))

    assert [json.loads(line)["seq"] for line in path.read_text().splitlines()] == [1, 2]


def test_a_folder_that_cannot_be_written_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(MachineError, match="cannot be written"):
        EventLog(tmp_path / "missing" / "events.jsonl")
