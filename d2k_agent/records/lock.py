"""One driver a run: a second process is refused with the name of the first."""

from __future__ import annotations

import fcntl
import json
import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from d2k_agent.errors import UsageError
from d2k_agent.records.files import writing


@dataclass(frozen=True)
class Driver:
    """The process that drives a run."""

    pid: int
    started: str


@contextmanager
def driving(path: Path, run: Path) -> Iterator[Driver]:
    """Hold the lock file `path` of the run folder `run`; the system gives it back when the process dies.

    Raises UsageError when another process holds it.
    """
    with writing(path):
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(_refusal(run, _read(handle))) from None
        driver = Driver(os.getpid(), datetime.now(UTC).isoformat(timespec="seconds"))
        with writing(path):
            os.ftruncate(handle, 0)
            os.pwrite(handle, json.dumps(asdict(driver)).encode(), 0)
        yield driver
    finally:
        os.close(handle)


def current_driver(path: Path) -> Driver | None:
    """The process that holds the lock file `path` now, None when nobody does. `pid` is 0 where it left no name."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _read(handle) or Driver(0, "unknown")
    else:
        return None
    finally:
        os.close(handle)


def _read(handle: int) -> Driver | None:
    try:
        return Driver(**json.loads(os.pread(handle, 4096, 0)))
    except (ValueError, TypeError):
        return None


def _refusal(run: Path, driver: Driver | None) -> str:
    who = f"process {driver.pid}, since {driver.started}" if driver else "another process"
    stop = f"d2k-agent stop {shlex.quote(run.name)}"
    return f"{run} is driven by {who}; wait for it, or end it with `{stop}`, before you resume the run"
