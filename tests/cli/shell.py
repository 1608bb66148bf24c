"""The command line as a user meets it: a process of its own, with an environment and a folder of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Answer:
    """What a command printed, and its exit status."""

    status: int
    out: str
    err: str


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """An environment without keys and without anybody's settings."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": "/nonexistent",
        "LANG": "C.UTF-8",
        "PYTHONPATH": str(ROOT),
        **(extra or {}),
    }


def command(*arguments: str) -> list[str]:
    """The command line of one call."""
    return [sys.executable, "-m", "d2k_agent", *arguments]


def d2k(*arguments: str, folder: Path, extra: Mapping[str, str] | None = None, limit_s: float = 120) -> Answer:
    """Run one command to its end."""
    done = subprocess.run(
        command(*arguments),
        cwd=folder,
        env=environment(extra),
        capture_output=True,
        text=True,
        timeout=limit_s,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    return Answer(done.returncode, done.stdout, done.stderr)


def assert_refused(answer: Answer, status: int, *words: str) -> None:
    """One sentence on stderr that begins with the program's name, no traceback, the exit status."""
    assert answer.status == status, answer
    complaint = answer.err.strip().splitlines()[-1]
    assert complaint.startswith("d2k-agent: "), answer.err
    assert "Traceback" not in answer.err + answer.out, answer.err
    for word in words:
        assert word in complaint, complaint


def without_override() -> tuple[str, ...]:
    """What to put before a command so that file permissions hold for it, also where the tests run as root."""
    if os.geteuid() != 0:
        return ()
    return ("setpriv", "--bounding-set=-dac_override,-dac_read_search")
