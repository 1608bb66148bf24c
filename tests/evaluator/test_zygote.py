"""A system that has no process to give, and a zygote that is gone, are told apart and end nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import os, resource, signal
from d2k_agent.evaluator import zygote


def prepare():
    if os.getuid() == 0:
        os.setuid(65534)  # root may always fork
    resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
    return lambda channel, order: None


full = zygote.start(prepare)
for _ in range(2):
    try:
        full.fork({"supervisor": os.getpid()})
    except OSError as problem:
        print(type(problem).__name__, problem)
os.kill(full.pid, signal.SIGKILL)
os.waitpid(full.pid, 0)
try:
    full.fork({"supervisor": os.getpid()})
except OSError as problem:
    print(type(problem).__name__, problem)
"""


def test_a_fork_that_fails_is_answered_and_the_zygote_lives(tmp_path: Path) -> None:
    root = str(Path(__file__).resolve().parents[2])
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": root}
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, check=False, env=environment, capture_output=True, text=True, timeout=60)
    first, second, third = done.stdout.splitlines()
    assert first == second, done.stderr
    assert first.startswith("BlockingIOError") and "no process for a candidate" in first
    assert third.startswith("ZygoteEnded the process that forks candidates ended")
