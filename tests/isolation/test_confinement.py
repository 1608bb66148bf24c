"""A process that confined itself, asked what it can still do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from d2k_agent.isolation import Policy, confine, hide_process, landlock_abi

ROOT = Path(__file__).parents[2]
CHILD = """
import json, os, sys
from d2k_agent.isolation import Policy, confine, toolchain_paths
settings = json.loads(sys.argv[1])
read, listed = toolchain_paths()
os.setsid()
measures = confine(Policy(read=read, list_only=listed, write=tuple(settings["write"]), **settings["proc"]))
results = {}
def attempt(name, action):
    try:
        action()
        results[name] = "allowed"
    except OSError as problem:
        results[name] = problem.strerror
exec(sys.stdin.read())
print(json.dumps({"measures": measures, "results": results}))
"""

needs_landlock = pytest.mark.skipif(landlock_abi() < 1, reason="this kernel has no Landlock")


def confined(script: str, writable: Path, **proc: bool) -> dict[str, Any]:
    """What `script` recorded by attempt(name, action), in a process that may write `writable` only."""
    settings = {"write": [str(writable)], "proc": proc}
    done = subprocess.run(
        [sys.executable, "-c", CHILD, json.dumps(settings)],
        input=script,
        env={"PYTHONPATH": str(ROOT), "SECRET": "CANARY"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


@needs_landlock
def test_the_measures_are_named(tmp_path: Path) -> None:
    measures = confined("", tmp_path)["measures"]
    assert {"no_new_privs", "landlock.files", "no_capabilities", "seccomp"} <= set(measures)
    assert ("landlock.signals" in measures) == (landlock_abi() >= 6)


@needs_landlock
def test_what_the_policy_allows_works(tmp_path: Path) -> None:
    script = f"""
attempt("write", lambda: open({str(tmp_path / "a")!r}, "w").write("x"))
attempt("rename", lambda: os.rename({str(tmp_path / "a")!r}, {str(tmp_path / "b")!r}))
attempt("read", lambda: open({str(tmp_path / "b")!r}).read())
attempt("device", lambda: open("/dev/null", "w").write("x"))
attempt("list", lambda: os.listdir(listed[0]))
attempt("module", lambda: __import__("decimal"))
attempt("socket pair", lambda: __import__("socket").socketpair())
attempt("threads", lambda: __import__("threading").Thread(target=int).start())
attempt("fork", lambda: os.waitpid(os.fork() or os._exit(0), 0))
"""
    assert set(confined(script, tmp_path)["results"].values()) == {"allowed"}


@needs_landlock
def test_what_it_does_not_allow_is_refused(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "secret").touch()
    script = f"""
import socket, signal
attempt("read", lambda: open({str(tmp_path / "secret")!r}))
attempt("list", lambda: os.listdir({str(tmp_path)!r}))
attempt("write", lambda: open({str(tmp_path / "new")!r}, "w"))
attempt("link", lambda: os.link({str(tmp_path / "secret")!r}, {str(tmp_path / "in" / "link")!r}))
attempt("rename in", lambda: os.rename({str(tmp_path / "secret")!r}, {str(tmp_path / "in" / "moved")!r}))
attempt("remove", lambda: os.unlink({str(tmp_path / "secret")!r}))
attempt("truncate", lambda: os.truncate({str(tmp_path / "secret")!r}, 0))
attempt("environment of the parent", lambda: open(f"/proc/{{os.getppid()}}/environ"))
attempt("own environment", lambda: open("/proc/self/environ"))
attempt("signal", lambda: os.kill(os.getppid(), signal.SIGCONT))
attempt("signal to all", lambda: os.kill(-1, signal.SIGCONT))
attempt("signal to the group", lambda: os.killpg({os.getpgrp()}, signal.SIGCONT))
attempt("descriptor of the parent", lambda: os.pidfd_open(os.getppid()))
attempt("slow the parent down", lambda: os.sched_setaffinity(os.getppid(), [0]))
attempt("network", lambda: socket.socket())
attempt("user namespace", lambda: os.unshare(os.CLONE_NEWUSER) if hasattr(os, "unshare") else open("/dev/mem"))
attempt("module file", lambda: open({str(ROOT / "d2k_agent" / "errors.py")!r}))
attempt("shared memory", lambda: open("/dev/shm/d2k-test", "w"))
attempt("execute", lambda: os.execv({str(tmp_path / "secret")!r}, ["x"]))
"""
    results = confined(script, tmp_path / "in")["results"]
    assert [name for name, outcome in results.items() if outcome == "allowed"] == []


@needs_landlock
@pytest.mark.parametrize("proc", ["proc", "proc_of_children"])
def test_proc_opens_its_own_entry_for_writing_and_nobody_elses(tmp_path: Path, proc: str) -> None:
    script = """
attempt("own name", lambda: open(f"/proc/self/task/{os.getpid()}/comm", "w").write("x"))
attempt("own memory map", lambda: open("/proc/self/maps").read())
attempt("processors", lambda: open("/proc/cpuinfo").read())
"""
    assert set(confined(script, tmp_path, **{proc: True})["results"].values()) == {"allowed"}
    script = """
parent = f"/proc/{os.getppid()}"
for name in ("environ", "mem", "maps", "fd/0", "root/etc/hostname", "cwd/x"):
    attempt(name, lambda: open(f"{parent}/{name}", "rb"))
attempt("name of the parent", lambda: os.write(os.open(f"{parent}/comm", os.O_WRONLY), b"x"))
for name in ("sys/kernel/core_pattern", "sys/kernel/hostname", "sysrq-trigger"):
    attempt(name, lambda: os.close(os.open(f"/proc/{name}", os.O_WRONLY)))
"""
    results = confined(script, tmp_path, **{proc: True})["results"]
    assert [name for name, outcome in results.items() if outcome == "allowed"] == []


@needs_landlock
@pytest.mark.parametrize(("proc", "outcome"), [("proc", "Permission denied"), ("proc_of_children", "allowed")])
def test_children_write_their_own_entries_only_where_asked_for(tmp_path: Path, proc: str, outcome: str) -> None:
    script = """
import subprocess
child = subprocess.Popen(["sleep", "30"])
attempt("child", lambda: open(f"/proc/{child.pid}/oom_score_adj", "w").write("1000"))
child.kill(); child.wait()
"""
    assert confined(script, tmp_path, **{proc: True})["results"] == {"child": outcome}


@needs_landlock
def test_a_missing_writable_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"landlock: writable path .*missing does not exist"):
        confined("", tmp_path / "missing")


def test_a_process_of_several_threads_is_refused() -> None:
    wait = threading.Event()
    thread = threading.Thread(target=wait.wait)
    thread.start()
    try:
        with pytest.raises(OSError, match="several threads"):
            confine(Policy(read=(), write=()))
    finally:
        wait.set()
        thread.join()


def test_a_hidden_process_is_not_dumpable() -> None:
    pid = os.fork()
    if pid == 0:
        hide_process()
        os._exit(10 + (Path("/proc/self/coredump_filter").stat().st_uid == 0))
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 11


THREADED = """
import json, os, queue, sys, threading
from d2k_agent.isolation import Policy, confine, toolchain_paths

asked, answers = queue.Queue(), queue.Queue()

def reach():
    try:
        open(sys.argv[1]).read()
        return "allowed"
    except OSError as problem:
        return problem.strerror

threading.Thread(target=lambda: [answers.put(reach()) for _ in iter(asked.get, None)], daemon=True).start()
read, listed = toolchain_paths()
os.setsid()
policy = Policy(read=read, list_only=listed, write=(sys.argv[2],))
try:
    confine(policy)
    refused = ""
except OSError as problem:
    refused = str(problem)
confine(policy, other_threads=True)
later = []
thread = threading.Thread(target=lambda: later.append(reach()))
thread.start()
thread.join()
asked.put("now")
print(json.dumps({"refused": refused, "main": reach(), "later": later[0], "before": answers.get()}))
asked.put(None)
"""


@needs_landlock
def test_threads_that_were_there_before_stay_as_they_are_where_that_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    outside = tmp_path / "outside"
    outside.write_text("secret")
    argv = [sys.executable, "-c", THREADED, str(outside), str(tmp_path / "in")]
    done = subprocess.run(argv, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert "several threads" in told["refused"]
    assert (told["main"], told["later"], told["before"]) == ("Permission denied", "Permission denied", "allowed")
