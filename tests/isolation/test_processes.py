"""Process trees are ended whole, whatever their members did to stay."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = str(Path(__file__).parents[2])
PARENT = """
import json, os, subprocess, sys, time
from d2k_agent.isolation import become_subreaper, descendants, end_descendants
become_subreaper()
kept = subprocess.Popen(["sleep", "60"])
command = subprocess.Popen(["bash", "-c", sys.argv[1]])
for _ in range(500):
    if len(descendants(os.getpid())) >= int(sys.argv[2]) + 1:
        break
    time.sleep(0.01)
ended = end_descendants(os.getpid(), keep=[kept.pid])
left = descendants(os.getpid())
kept.kill(); kept.wait()
print(json.dumps({"ended": ended, "only the kept one is left": left == [kept.pid]}))
"""


@pytest.mark.parametrize(
    ("command", "processes"),
    [
        ("sleep 60 & sleep 60 & wait", 3),
        ("(setsid bash -c 'sleep 60 & sleep 60; true' &); sleep 60; true", 4),
        ("trap '' TERM INT HUP; sleep 60 & kill -STOP $$", 2),
        ("bash -c 'bash -c \"sleep 60; true\"; true'; true", 4),
    ],
)
def test_every_descendant_is_ended_but_the_kept_ones(command: str, processes: int) -> None:
    argv = [sys.executable, "-c", PARENT, command, str(processes)]
    done = subprocess.run(argv, env={"PYTHONPATH": ROOT}, stdout=subprocess.PIPE, text=True, timeout=50, check=True)
    answer = json.loads(done.stdout)
    assert answer["ended"] >= processes
    assert answer["only the kept one is left"]


def test_processes_that_keep_forking_are_caught_up_with() -> None:
    command = "f() { while :; do (exec -a forker sleep 60) & read -rt 0.005 -u 9; done; }; exec 9<> <(:); f & f & f"
    argv = [sys.executable, "-c", PARENT, command, "20"]
    done = subprocess.run(argv, env={"PYTHONPATH": ROOT}, stdout=subprocess.PIPE, text=True, timeout=50, check=True)
    answer = json.loads(done.stdout)
    assert answer["ended"] >= 20
    assert answer["only the kept one is left"]
