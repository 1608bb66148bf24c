"""Process trees: who descends from whom, and ending all of them, whatever they did to stay."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

from d2k_agent.isolation import kernel

if TYPE_CHECKING:
    from collections.abc import Collection


def become_subreaper() -> None:
    """Inherit every orphan below this process, so that no double fork escapes it. Raises OSError."""
    kernel.prctl("subreaper", kernel.PR_SET_CHILD_SUBREAPER, 1)


def end_with_parent() -> None:
    """Have the kernel kill this process when the thread that forked it ends. Raises OSError."""
    kernel.prctl("parent death signal", kernel.PR_SET_PDEATHSIG, signal.SIGKILL)


def descendants(pid: int) -> list[int]:
    """Every living process below `pid` (zombies left out), parents before their children."""
    return _below(pid, ())


def libraries_of(pid: int) -> frozenset[str] | None:
    """The paths of the files, whatever their names, from which a process may run code; None where that cannot be read.

    `/memfd:NAME` is one without a place in a file system.
    """
    try:
        with open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as file:
            rows = [line.rstrip("\n").split(maxsplit=5) for line in file]
    except OSError:
        return None
    return frozenset(
        row[5].removesuffix(" (deleted)") for row in rows if len(row) > 5 and "x" in row[1] and row[5].startswith("/")
    )


def end_descendants(pid: int, keep: Collection[int] = (), grace_s: float = 10.0) -> int:
    """SIGKILL everything below `pid` except `keep` and what descends from it, until none is left.

    Complete where `pid` is a subreaper, since its orphans come back to it. Children of the calling process are
    reaped. Returns how many processes were ended; raises TimeoutError naming those still alive after `grace_s`.
    """
    ended: set[int] = set()
    deadline = time.monotonic() + grace_s
    while remaining := _below(pid, keep):
        if time.monotonic() > deadline:
            raise TimeoutError(f"processes {remaining} outlive SIGKILL by {grace_s} s; look for a hung driver or disk")
        _signal_all(remaining, signal.SIGSTOP)  # a stopped process forks no more: the next look finds them all
        remaining = _below(pid, keep)
        _signal_all(remaining, signal.SIGKILL)
        ended.update(remaining)
        _reap(remaining)
        time.sleep(0.001)
    return len(ended)


def _below(pid: int, keep: Collection[int]) -> list[int]:
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (parent := _living_parent(entry)) is not None:
            children.setdefault(parent, []).append(int(entry.name))
    found: list[int] = []
    front = [pid]
    while front:
        front = [child for parent in front for child in children.get(parent, ()) if child not in keep]
        found += front
    return found


def _living_parent(process: Path) -> int | None:
    """The parent of the process with this entry in /proc, or None when it has ended."""
    try:
        state, parent = (process / "stat").read_bytes().rpartition(b")")[2].split()[:2]
    except (FileNotFoundError, ProcessLookupError):
        return None
    if state in (b"Z", b"X") and not _has_threads(process):
        return None
    return int(parent)


def _has_threads(process: Path) -> bool:
    """True where threads live on although the first one has ended, which makes the process look like a zombie."""
    try:
        return len(os.listdir(process / "task")) > 1
    except OSError:
        return False


def _signal_all(processes: Collection[int], number: signal.Signals) -> None:
    for process in processes:
        try:
            os.kill(process, number)
        except ProcessLookupError:
            continue  # it ended by itself in the meantime


def _reap(processes: Collection[int]) -> None:
    for process in processes:
        try:
            os.waitpid(process, os.WNOHANG)
        except ChildProcessError:
            continue  # somebody else's child
