"""The event log: one JSON object a line, appended and never changed.

Covers: durable appends, opening after a crash, reading from an offset. Does not cover: what events mean. One process
appends at a time (lock.py); any number read meanwhile.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from pydantic import TypeAdapter, ValidationError

from d2k_agent.errors import MachineError
from d2k_agent.records.events import Event, TaggedEvent
from d2k_agent.records.files import sync_folder, writing


class EventLog:
    """An open log. A line that a crash left torn at the end is cut on opening; what stood before it is kept.

    Offsets are bytes from the beginning of the file. Raises MachineError when the file is damaged or cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        new = not path.exists()
        with writing(path):
            self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
            if new:
                sync_folder(path.parent)
            events, self._size = read_events(path)
            if self._size < os.fstat(self._handle).st_size:
                os.ftruncate(self._handle, self._size)
                os.fsync(self._handle)
        check_sequence(path, events)
        self._seq = len(events)

    @property
    def size(self) -> int:
        """Bytes in the log: the offset at which the next event begins."""
        return self._size

    def read(self) -> list[Event]:
        """Every event in the log."""
        return read_events(self.path)[0]

    def append(self, *events: Event, durable: bool = True) -> tuple[Event, ...]:
        """Append `events` in one write and return them stamped.

        They survive the process in any case, and a power cut once a `durable` append has returned, this one or a later
        one. Raises MachineError when the disk refuses (the log is then as before), ValueError naming the event that is
        no JSON data.
        """
        now = datetime.now(UTC)
        stamped = tuple(
            event.model_copy(update={"seq": self._seq + number, "time": now})
            for number, event in enumerate(events, start=1)
        )
        data = b"".join(map(encode, stamped))
        with writing(self.path):
            self._write(data, durable)
        self._size += len(data)
        self._seq += len(stamped)
        return stamped

    def _write(self, data: bytes, durable: bool) -> None:
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(self._handle, rest) :]
            if durable:
                os.fdatasync(self._handle)
        except OSError:
            os.ftruncate(self._handle, self._size)
            raise

    def close(self) -> None:
        """Give the file back."""
        os.close(self._handle)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


_EVENT: TypeAdapter[Event] = TypeAdapter(TaggedEvent)


def encode(event: Event) -> bytes:
    """One line of the log. Raises ValueError naming the event when a value in it is no JSON data."""
    try:
        text = json.dumps(
            event.model_dump(), ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_encode_time
        )
        return text.encode() + b"\n"
    except (ValueError, TypeError) as problem:
        raise ValueError(f"a {event.type} event cannot be recorded: {problem}") from problem


def _encode_time(value: object) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError(f"{value!r} is no JSON data")


def read_events(path: Path, start: int = 0) -> tuple[list[Event], int]:
    """The whole events from byte `start` on, and the offset behind the last of them.

    A torn last line is left out: it is being written, or a crash cut it. Raises MachineError for a damaged line.
    """
    with open(path, "rb") as file:
        file.seek(start)
        data = file.read()
    lines = data.split(b"\n")
    torn = len(lines.pop())
    events: list[Event] = []
    for number, line in enumerate(lines):
        try:
            events.append(_EVENT.validate_json(line))
        except ValidationError as problem:
            if number == len(lines) - 1 and not _is_json(line):
                return events, start + len(data) - torn - len(line) - 1
            what = problem.errors()[0]
            raise MachineError(
                f"{path}: event {number + 1} after byte {start} cannot be read ({what['msg']} at "
                f"{'.'.join(map(str, what['loc'])) or 'its beginning'}); restore the file from a copy, or read it with "
                "the version that wrote it"
            ) from None
    return events, start + len(data) - torn


def check_sequence(path: Path, events: Iterable[Event]) -> None:
    """Raise MachineError when an event is missing, doubled or out of order."""
    for expected, event in enumerate(events, start=1):
        if event.seq != expected:
            raise MachineError(
                f"{path}: event {expected} carries number {event.seq}: lines were lost or added; restore the file "
                "from a copy"
            )


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True
