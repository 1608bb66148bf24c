"""Temporary folders of evaluators: one that lives keeps its own, one that ended leaves nothing for long."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

from d2k_agent.evaluator.scratch import PREFIX, ScratchRoot, sweep

OWNER = """
import sys, time
from d2k_agent.evaluator.scratch import ScratchRoot
root = ScratchRoot(sys.argv[1])
open(root.path + "/left", "w").close()
print(root.path, flush=True)
time.sleep(60)
"""


def test_a_killed_owners_folder_is_swept_and_a_living_ones_is_not(tmp_path: Path) -> None:
    mine = ScratchRoot(str(tmp_path))
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    command = [sys.executable, "-c", OWNER, str(tmp_path)]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        other = Path(owner.stdout.readline().strip())
        sweep(str(tmp_path))
        assert (other / "left").exists()
        owner.send_signal(signal.SIGKILL)
    (tmp_path / f"{PREFIX}being_made").mkdir()
    abandoned = tmp_path / f"{PREFIX}abandoned"
    (abandoned / "s").mkdir(parents=True)
    os.utime(abandoned, (0, 0))
    (tmp_path / "another").mkdir()
    sweep(str(tmp_path))
    assert {path.name for path in tmp_path.iterdir()} == {
        Path(mine.path).name,
        f"{PREFIX}being_made",
        "another",
    }
    mine.remove()
    assert not Path(mine.path).exists()


def test_folders_that_vanish_meanwhile_are_left_to_whoever_removes_them(tmp_path: Path) -> None:
    ended = threading.Event()

    def churn() -> None:
        while not ended.is_set():
            ScratchRoot(str(tmp_path)).remove()

    owners = [threading.Thread(target=churn) for _ in range(2)]
    for owner in owners:
        owner.start()
    try:
        for _ in range(1500):
            sweep(str(tmp_path))
    finally:
        ended.set()
        for owner in owners:
            owner.join()


def test_where_nothing_can_be_listed_nothing_is_swept(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    sweep(str(tmp_path / "file"))
    sweep(str(tmp_path / "gone"))
