"""Group E04: a command ends in time, with everything it started, and takes nobody else with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from d2k_agent.sandbox import Completed, Sandbox
from tests.sandbox.boxes import gone_within, running, text

LIMIT_S = 1.0
"""What the cases call T, shorter than theirs."""


FORKS = """python3 -c "import os, time
for _ in range(5):
  if os.fork() == 0: time.sleep({mark}); os._exit(0)
time.sleep(300)"
"""


def bash(box: Sandbox, command: str, limit_s: float = LIMIT_S) -> Completed:
    return box.run(["/bin/bash", "-c", command], limit_s=limit_s, output_bytes=20_000)


@pytest.mark.parametrize(
    "command",
    [
        "sleep {mark} & echo done",
        "sleep {mark} </dev/null >/dev/null & echo done",
        "setsid sleep {mark} & echo done",
        "(setsid sh -c 'sleep {mark} & sleep {mark}' &) ; echo done",
        "(setsid bash -c 'trap \"\" TERM INT HUP; kill -STOP $$; sleep {mark}' &) ; echo done",
    ],
)
def test_what_is_left_in_the_background_ends_with_the_command(box: Sandbox, command: str) -> None:
    mark = f"300.{time.monotonic_ns()}"
    completed = bash(box, command.format(mark=mark), limit_s=20)
    assert text(completed.stdout) == "done\n"
    assert completed.returncode == 0
    assert not completed.timed_out
    assert completed.seconds < 10
    assert not list(running(mark))


@pytest.mark.parametrize(
    "command",
    [
        "sh -c \"trap '' TERM INT HUP; sleep {mark}\"",
        FORKS,
        "exec 1>&- 2>&-; sleep {mark}",
        "kill -STOP $$; echo {mark}",
        "setsid setsid sleep {mark} & kill -STOP $$",
    ],
)
def test_the_limit_ends_everything(box: Sandbox, command: str) -> None:
    mark = f"300.{time.monotonic_ns()}"
    completed = bash(box, command.format(mark=mark))
    assert completed.timed_out
    assert completed.returncode is None
    assert LIMIT_S <= completed.seconds < LIMIT_S + 5
    assert not list(running(mark))


def test_a_command_just_below_the_limit_finishes(box: Sandbox) -> None:
    completed = bash(box, "sleep 1; echo late", limit_s=10)
    assert (text(completed.stdout), completed.timed_out) == ("late\n", False)


@pytest.mark.parametrize("target", ["$PPID", "-1", "-$PPID", "{controller}"])
def test_a_command_cannot_kill_its_way_out(box: Sandbox, target: str) -> None:
    bystander = subprocess.Popen(["sleep", "60"])
    try:
        command = f"kill -9 {target.format(controller=os.getpid())} 2>/dev/null; kill -9 {bystander.pid}"
        bash(box, command, limit_s=20)
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_standard_input_is_closed_unless_given(box: Sandbox) -> None:
    assert bash(box, "cat").returncode == 0
    given = box.run(["cat"], stdin=b"x" * 300_000, limit_s=10, output_bytes=400_000)
    assert len(given.stdout.head) == 200_000
    assert len(given.stdout.head + given.stdout.tail) == 300_000


def test_a_command_that_ignores_its_input_is_no_accident(box: Sandbox) -> None:
    completed = box.run(["true"], stdin=b"x" * 1_000_000, limit_s=10, output_bytes=1000)
    assert completed.returncode == 0


def test_every_call_starts_afresh_in_the_workspace(box: Sandbox) -> None:
    assert text(bash(box, 'cd /; V=1; rm -rf "$PWD/definitely_not_there"; pwd').stdout) == "/\n"
    assert text(bash(box, 'pwd; echo "[$V]"').stdout) == f"{box.workspace}\n[]\n"


def test_a_signal_is_reported_as_a_shell_does(box: Sandbox) -> None:
    assert bash(box, "kill -9 $$").returncode == 128 + signal.SIGKILL
    assert bash(box, "ulimit -c unlimited 2>/dev/null; kill -SEGV $$").returncode == 128 + signal.SIGSEGV
    assert not list(box.workspace.glob("core*"))


CONTROLLER = """
import signal
import sys
from pathlib import Path
signal.signal(signal.SIGINT, signal.default_int_handler)  # what a shell starts in the background ignores it
from d2k_agent.sandbox import Isolation, Sandbox
box = Sandbox(Isolation(sys.argv[1]), Path(sys.argv[2]))
box.run(["/bin/bash", "-c", f"touch started; (setsid sleep {sys.argv[3]} &); sleep {sys.argv[3]}"],
        limit_s=300, output_bytes=1000)
"""


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_nothing_outlives_the_controller(wall: str, tmp_path: Path, end: signal.Signals) -> None:
    mark = f"300.{time.monotonic_ns()}"
    root = str(Path(__file__).parents[2])
    controller = subprocess.Popen(
        [sys.executable, "-c", CONTROLLER, wall, str(tmp_path), mark],
        env={"PYTHONPATH": root},
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 30
    while not ((tmp_path / "started").exists() and len(list(running(mark))) > 2):
        assert time.monotonic() < deadline, "the command did not start"
        time.sleep(0.02)
    controller.send_signal(end)
    controller.wait()
    assert gone_within(mark, 10)
