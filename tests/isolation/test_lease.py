"""The lease of a GPU: exclusive among processes, told while waited for, given back by a death, open to every user."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from d2k_agent.isolation.lease import LeaseRefused, hold

ROOT = Path(__file__).resolve().parents[2]
HOLDER = """
import sys, time
from d2k_agent.isolation.lease import hold
with hold([sys.argv[1]], print, folder=sys.argv[2]):
    print("held", flush=True)
    sys.stdin.readline()
"""


def silent(text: str) -> None:
    raise AssertionError(f"nobody should have waited: {text}")


def holder(uuid: str, folder: Path) -> subprocess.Popen[str]:
    """Another process that holds the lease until it is told to end."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, uuid, str(folder)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stdout.readline() == "held\n"
    return process


def ended(process: subprocess.Popen[str]) -> None:
    process.communicate(timeout=30)


def test_a_free_gpu_is_taken_at_once_and_its_file_is_everybodys(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        with hold(["GPU-a"], silent, folder=str(tmp_path)) as waited:
            assert waited < 1.0
            path = tmp_path / "d2k-gpu-GPU-a.lock"
            assert path.read_text() == f"{os.getpid()}\n"
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666
    assert path.read_text() == "" and [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_who_waits_is_told_for_whom_and_goes_on_when_it_is_free(tmp_path: Path) -> None:
    other = holder("GPU-a", tmp_path)
    told: list[str] = []

    def free(text: str) -> None:
        told.append(text)
        if len(told) == 3:
            ended(other)

    with hold(["GPU-a"], free, folder=str(tmp_path), told_every_s=0.1) as waited:
        assert waited > 0.1
    assert told == [f"waiting for GPU GPU-a, held by process {other.pid}"] * 3


def test_a_killed_process_gives_it_back(tmp_path: Path) -> None:
    other = holder("GPU-a", tmp_path)
    other.send_signal(signal.SIGKILL)
    ended(other)
    with hold(["GPU-a"], silent, folder=str(tmp_path)):
        pass


def test_a_wait_can_be_bounded(tmp_path: Path) -> None:
    other = holder("GPU-a", tmp_path)
    with pytest.raises(LeaseRefused, match=f"was not free in time, held by process {other.pid}"):  # noqa: SIM117
        with hold(["GPU-a"], lambda _: None, 0.2, folder=str(tmp_path)):
            raise AssertionError("held twice")
    ended(other)


def test_two_who_want_the_same_gpus_in_other_orders_both_get_them(tmp_path: Path) -> None:
    held = []

    def both(*uuids: str) -> None:
        for _ in range(5):
            with hold(uuids, lambda _: None, 30.0, folder=str(tmp_path)):
                held.append(uuids)
                time.sleep(0.01)

    threads = [threading.Thread(target=both, args=order) for order in (("GPU-a", "GPU-b"), ("GPU-b", "GPU-a"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(held) == 10


def test_a_gpu_named_twice_is_taken_once_and_another_ones_lease_is_another(tmp_path: Path) -> None:
    with hold(["GPU-a", "GPU-a"], silent, folder=str(tmp_path)), hold(["GPU-b"], silent, folder=str(tmp_path)):
        pass


def test_a_lease_whose_file_was_removed_is_taken_anew(tmp_path: Path) -> None:
    other = holder("GPU-a", tmp_path)
    told: list[str] = []

    def remove(text: str) -> None:
        told.append(text)
        (tmp_path / "d2k-gpu-GPU-a.lock").unlink()
        ended(other)

    with hold(["GPU-a"], remove, folder=str(tmp_path)):
        assert (tmp_path / "d2k-gpu-GPU-a.lock").read_text() == f"{os.getpid()}\n"
    assert len(told) == 1


def test_a_planted_link_pipe_or_closed_folder_is_refused(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "d2k-gpu-GPU-a.lock").symlink_to(victim)
    os.mkfifo(tmp_path / "d2k-gpu-GPU-b.lock")
    for uuid in ("GPU-a", "GPU-b"):
        with pytest.raises(LeaseRefused, match=r"cannot be opened; remove that file"):
            hold([uuid], silent, folder=str(tmp_path)).__enter__()
    assert victim.read_text() == "precious"
    with pytest.raises(LeaseRefused, match="cannot be made"):
        hold(["GPU-a"], silent, folder=str(tmp_path / "none")).__enter__()
    with pytest.raises(ValueError, match="no UUID"):
        hold(["../x"], silent, folder=str(tmp_path)).__enter__()


def test_a_second_name_of_some_other_file_is_refused_and_one_that_goes_away_is_not(tmp_path: Path) -> None:
    victim, path = tmp_path / "victim", tmp_path / "d2k-gpu-GPU-a.lock"
    victim.write_text("precious")
    path.hardlink_to(victim)
    with pytest.raises(LeaseRefused, match=r"remove that file, and measure again \(it is a second name of some file\)"):
        hold(["GPU-a"], silent, folder=str(tmp_path)).__enter__()
    assert victim.read_text() == "precious"
    # As while its maker, who links it there whole, has yet to take the first name away.
    timer = threading.Timer(0.1, victim.unlink)
    timer.start()
    with hold(["GPU-a"], silent, folder=str(tmp_path)):
        pass
    timer.join()


def as_another_user(folder: Path, action: Callable[[], None]) -> None:
    """Do `action` in `folder`, which is everybody's as /tmp is, as a user without rights."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    os.chmod(folder, 0o1777)
    pid = os.fork()
    if pid == 0:
        try:
            os.chdir(folder)  # the folders above are this user's alone
            os.setuid(65534)
            action()
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_another_user_can_hold_it(tmp_path: Path) -> None:
    with hold(["GPU-a"], silent, folder=str(tmp_path)):
        pass

    def take() -> None:
        with hold(["GPU-a"], silent, folder="."):
            pass

    as_another_user(tmp_path, take)


def test_who_cannot_remove_the_file_is_told_who_can(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    (tmp_path / "d2k-gpu-GPU-a.lock").touch(0o600)
    (tmp_path / "d2k-gpu-GPU-b.lock").symlink_to("victim")
    (tmp_path / "d2k-gpu-GPU-c.lock").touch(0)
    os.chown(tmp_path / "d2k-gpu-GPU-c.lock", 65534, -1)

    def refused() -> None:
        for uuid in ("GPU-a", "GPU-b"):
            with pytest.raises(LeaseRefused, match="ask user 0, whose file it is, or the administrator to remove it, "):
                hold([uuid], silent, folder=".").__enter__()
        with pytest.raises(LeaseRefused, match=r"cannot be opened; remove that file, and measure again \(Permission"):
            hold(["GPU-c"], silent, folder=".").__enter__()

    as_another_user(tmp_path, refused)
