"""What an evaluator's process answers where the task or the machine is at fault, and what it leaves behind."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from d2k_agent.contract import JobKind, VerdictStatus
from d2k_agent.errors import MachineError, UsageError
from d2k_agent.launchers import ProcessLauncher
from tests.evaluator.scaling import HONEST, job, task


@pytest.fixture
def launcher(tmp_path: Path) -> Iterator[ProcessLauncher]:
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "TMPDIR": str(tmp_path)}
    launcher = ProcessLauncher(environment)
    yield launcher
    launcher.close()


def zygotes() -> list[int]:
    """Children of this process's only child, the evaluator."""
    found = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
    evaluator = next(pid for pid in found if b"bytes.fromhex" in Path(f"/proc/{pid}/cmdline").read_bytes())
    return [int(pid) for pid in Path(f"/proc/{evaluator}/task/{evaluator}/children").read_text().split()]


def left(folder: Path) -> int:
    """How many folders of evaluators and of candidates lie there."""
    return len(list(folder.glob("d2k-*")))


def test_a_broken_task_a_full_memory_and_a_dead_zygote_are_answered(launcher: ProcessLauncher, tmp_path: Path) -> None:
    killed = tmp_path / "d2k-evaluator-killed"
    killed.mkdir()
    (killed / "owner").touch()
    broken = task()
    broken.hidden["workloads.json"] = json.dumps({})
    with pytest.raises(UsageError, match=r"hidden/workloads\.json: smoke is missing"):
        launcher.launch(job(HONEST, task=broken))
    assert (killed.exists(), left(tmp_path)) == (False, 1)
    before = zygotes()
    assert len(before) == 2

    text = "def get_inputs(config):\n    if config['n'] > 9999:\n        raise KeyError('n_rows')\n    return [1.0]\n"
    with pytest.raises(UsageError, match=r"get_inputs\.py raised KeyError: 'n_rows'"):
        launcher.launch(job(HONEST, task=task(get_inputs_py=text)))
    assert set(before) <= set(zygotes())

    huge = task(reference_py="import torch\n\n\ndef run(x, f):\n    return torch.empty(1 << 50)\n")
    with pytest.raises(MachineError, match=r"reference\.py needs more memory"):
        launcher.launch(job(HONEST, task=huge))
    assert set(before) <= set(zygotes())

    for pid in before:
        os.kill(pid, signal.SIGKILL)
    with pytest.raises(MachineError, match="forks candidates ended"):
        launcher.launch(job(HONEST, kind=JobKind.COMPILE))
    assert launcher.launch(job(HONEST, kind=JobKind.COMPILE)).status is VerdictStatus.UNTIMED
    assert left(tmp_path) == 1
    launcher.close()
    assert left(tmp_path) == 0
