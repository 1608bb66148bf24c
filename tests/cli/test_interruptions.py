"""Ctrl-C and a full disk: the run stops with a sentence and goes on when it is resumed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.runs import call, events, script, wait_for
from tests.cli.shell import command, d2k, environment


def start(*arguments: str, folder: Path, extra: dict[str, str] | None = None) -> subprocess.Popen[str]:
    """A command in a session of its own, as a terminal's foreground job."""
    return subprocess.Popen(
        command(*arguments),
        cwd=folder,
        env=environment(extra),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def press_ctrl_c(process: subprocess.Popen[str]) -> tuple[int, str]:
    """What a terminal does: SIGINT to the whole foreground group. Returns exit status and stderr."""
    os.killpg(process.pid, signal.SIGINT)
    _, complaint = process.communicate(timeout=60)
    return process.returncode, complaint


PRESS = "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n"
PRESS_IN_A_LIBRARY = """
import os, signal
try:
    os.kill(os.getpid(), signal.SIGINT)
except KeyboardInterrupt:
    raise ValueError("a library made an error of its own of it") from None
"""
PRESS_AT_THE_END = """
import atexit, os, runpy, signal
atexit.register(os.kill, os.getpid(), signal.SIGINT)
runpy.run_module("d2k_agent", run_name="__main__", alter_sys=True)
"""


@pytest.mark.parametrize("text", [PRESS, PRESS_IN_A_LIBRARY])
def test_ctrl_c_before_the_first_line_is_a_sentence(text: str, tmp_path: Path) -> None:
    (tmp_path / "argparse.py").write_text(text)  # found before Python's own, in the folder where the command is given
    done = d2k("tasks", "list", folder=tmp_path)
    assert (done.status, done.err) == (130, "d2k-agent: ended by Ctrl-C\n")


def test_an_error_that_is_no_ctrl_c_is_not_taken_for_one(tmp_path: Path) -> None:
    (tmp_path / "argparse.py").write_text("raise ValueError('broken')\n")
    done = d2k("tasks", "list", folder=tmp_path)
    assert done.status == 1 and done.err.endswith("ValueError: broken\n")


def test_ctrl_c_when_all_is_done_ends_it_without_a_word(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PRESS_AT_THE_END, "tasks", "list", "--json"],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (-signal.SIGINT, "")
    assert '"muon"' in done.stdout


def processes_that_mention(text: str) -> list[str]:
    """Command lines of processes alive now that hold `text`."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            line = (entry / "cmdline").read_bytes() if entry.name.isdigit() else b""
        except OSError:
            continue  # ended meanwhile
        if text.encode() in line:
            found.append(line.decode(errors="replace"))
    return found


def test_ctrl_c_during_a_tool_ends_it_and_the_run_resumes(tmp_path: Path) -> None:
    mark = f"7{os.getpid()}"
    slow = call("bash", command=f"test -e again && exit 0; touch again; sleep {mark}", limit_s=500)
    model = script(tmp_path, slow, call("read", path="config.json"))
    run = tmp_path / "run"
    process = start("solve", "muon", "--model", model, "--run-dir", "run", folder=tmp_path)
    wait_for(lambda: bool(processes_that_mention(f"sleep\0{mark}")), "the tool to run")
    status, complaint = press_ctrl_c(process)
    assert status == 130
    assert complaint == "d2k-agent: ended by Ctrl-C; go on with `d2k-agent resume run`\n"
    wait_for(lambda: not processes_that_mention(f"sleep\0{mark}"), "the tool to end")
    assert events(run)[-1]["type"] == "run_interrupted"

    resumed = d2k("resume", "run", "--json", folder=tmp_path)
    assert resumed.status == 0, resumed.err
    outcome = json.loads(resumed.out)
    assert outcome["stop_reason"] == "script_ended" and outcome["turns"] == 2
    assert "tool_call_interrupted" in [event["type"] for event in events(run)]


def processes_given(text: str) -> list[str]:
    """Processes alive now whose environment holds `text`."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            held = (entry / "environ").read_bytes() if entry.name.isdigit() else b""
        except OSError:
            continue  # ended meanwhile, or it hides
        if text.encode() in held:
            found.append(entry.name)
    return found


def test_ctrl_c_during_an_evaluation_ends_the_evaluator_too(tmp_path: Path) -> None:
    model, scratch = script(tmp_path, call("submit")), tmp_path / "scratch"
    scratch.mkdir()
    line = ("solve", "muon", "--model", model, "--run-dir", "run")
    process = start(*line, folder=tmp_path, extra={"TMPDIR": str(scratch)})
    wait_for(lambda: "tool_call_started" in [event["type"] for event in events(tmp_path / "run")], "the submission")
    wait_for(lambda: len(processes_given(str(scratch))) > 1, "the evaluator to start")
    status, complaint = press_ctrl_c(process)
    assert status == 130
    assert complaint == "d2k-agent: ended by Ctrl-C; go on with `d2k-agent resume run`\n"
    wait_for(lambda: not processes_given(str(scratch)), "the evaluator to end")
    assert [event["type"] for event in events(tmp_path / "run")][-2:] == ["tool_call_started", "run_interrupted"]


def test_ctrl_c_during_a_model_call_ends_it_and_says_how_to_go_on(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}/v1"
        line = ("solve", "muon", "--model", "openai/silent", "--api-base", address, "--run-dir", "run")
        process = start(*line, folder=tmp_path, extra={"OPENAI_API_KEY": "sk-secret"})
        silent.settimeout(60)
        connection, _ = silent.accept()
        with connection:
            assert b"POST" in connection.recv(65536)
            status, complaint = press_ctrl_c(process)
    assert status == 130
    way = f"d2k-agent resume run --api-base {address}"
    assert complaint.splitlines()[-1] == f"d2k-agent: ended by Ctrl-C; go on with `{way}`"
    assert "Traceback" not in complaint
    told = events(tmp_path / "run")
    assert [event["type"] for event in told[-2:]] == ["model_call_started", "run_interrupted"]
    recorded = b"".join(path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file())
    assert b"sk-secret" not in recorded


FULL_DISK = """
mount -t tmpfs -o size=200k none small || exit 99
"$@" solve muon --model "$MODEL" --run-dir small/run; echo "solve: $?"
mount -o remount,size=32m small || exit 99
"$@" resume small/run --json --quiet; echo "resume: $?"
"""


def test_a_full_disk_is_a_sentence_and_the_run_resumes_once_there_is_room(tmp_path: Path) -> None:
    namespace = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--map-root-user", "--mount"]
    if shutil.which("unshare") is None:
        pytest.skip("no `unshare` here: a small file system cannot be mounted apart from the machine's")
    (tmp_path / "small").mkdir()
    model = script(
        tmp_path, call("bash", command="head -c 100000 /dev/zero > filler"), call("read", path="config.json")
    )
    done = subprocess.run(
        [*namespace, "sh", "-c", FULL_DISK, "sh", *command()],
        cwd=tmp_path,
        env=environment({"MODEL": model}),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == 99 and os.geteuid() != 0:
        pytest.skip("mounting is not allowed to this user")
    assert "solve: 3" in done.stdout, done
    assert "Traceback" not in done.stderr
    complaint = next(line for line in done.stderr.splitlines() if line.startswith("d2k-agent: "))
    assert "space" in complaint and "d2k-agent resume" in complaint
    assert "resume: 0" in done.stdout, done
    outcome = json.loads(done.stdout.splitlines()[-2])
    assert outcome["stop_reason"] == "script_ended" and outcome["turns"] == 2
