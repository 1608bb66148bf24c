"""Sandboxes for tests: both classes, a workspace each, and the search for processes that should be gone."""

from __future__ import annotations

import functools
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import pytest

from d2k_agent.errors import MachineError
from d2k_agent.sandbox import Captured, Isolation, Sandbox
from d2k_agent.sandbox.sandbox import IsolationKind

if TYPE_CHECKING:
    from collections.abc import Iterator

WALLS = tuple(kind for kind in get_args(IsolationKind) if kind != "none")


@functools.cache
def unavailable(kind: IsolationKind) -> str:
    """Why this class does not work here, "" where it does."""
    try:
        Sandbox(Isolation(kind), Path("/usr")).run([sys.executable, "-c", ""], limit_s=30, output_bytes=1000)
    except MachineError as problem:
        return str(problem)
    return ""


@pytest.fixture(params=WALLS)
def wall(request: pytest.FixtureRequest) -> str:
    """The name of each isolation class that this machine has."""
    if problem := unavailable(request.param):
        pytest.skip(f"{request.param}: {problem}")
    return str(request.param)


@pytest.fixture
def box(wall: IsolationKind, tmp_path: Path) -> Sandbox:
    """A sandbox of each class around tmp_path/run/ws."""
    workspace = tmp_path / "run" / "ws"
    workspace.mkdir(parents=True)
    return Sandbox(Isolation(wall), workspace)


def text(captured: Captured) -> str:
    return (captured.head + captured.tail).decode()


def running(mark: str) -> Iterator[int]:
    """Processes whose command line holds `mark`."""
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and mark.encode() in (entry / "cmdline").read_bytes():
                yield int(entry.name)
        except (FileNotFoundError, ProcessLookupError):
            continue


def gone_within(mark: str, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while any(running(mark)):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True
