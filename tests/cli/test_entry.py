"""The shell's side: pipes, exit statuses, the bare machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from d2k_agent.cli.entry import main
from tests.cli.runs import call, events, script
from tests.cli.shell import command, environment

BARE = """
import sys

class Absent:
    NAMES = {"pydantic", "pydantic_core", "rich", "langgraph", "langchain_core", "litellm", "tiktoken", "nvtx"}
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in self.NAMES:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
from d2k_agent.cli import main
sys.exit(main(sys.argv[1:]))
"""


def bare(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """A command on a machine that has Python, torch and triton only."""
    return subprocess.run(
        [sys.executable, "-c", BARE, *arguments],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_reader_that_goes_away_is_no_error_of_ours(tmp_path: Path) -> None:
    process = subprocess.Popen(
        command("tasks", "show", "muon"),
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141


def processor_seconds(pid: int) -> float:
    """What a process used of the processor so far: other work on the machine is not what is measured."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize("provider", [False, True])
def test_the_first_line_of_solve_takes_less_than_a_second(provider: bool, tmp_path: Path) -> None:
    """Also where the model is a provider's, whose library takes seconds to load."""
    model = "openai/x" if provider else script(tmp_path, {"content": "done"})
    line = ["solve", "muon", "--model", model, *(("--api-base", "http://127.0.0.1:9/v1") if provider else ())]

    def took() -> float:
        with subprocess.Popen(
            command(*line), cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"d2k-agent: solving muon\n"
            seconds = processor_seconds(process.pid)
            process.kill()
            return seconds

    assert min(took() for _ in range(3)) < 1.0


def test_graph_draws_the_nodes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["graph"]) == 0
    drawn = capsys.readouterr().out
    assert drawn.lstrip().startswith("---") or "graph TD" in drawn
    for node in ("prepare", "call_model", "run_tool", "evaluate", "close_turn", "select", "confirm", "finalise"):
        assert node in drawn


def test_the_catalog_needs_nothing_but_python(tmp_path: Path) -> None:
    for arguments in (("tasks", "list", "--json"), ("tasks", "check", "muon", "--no-run")):
        done = bare(*arguments, folder=tmp_path)
        assert done.returncode == 0, done.stderr
        assert "muon" in done.stdout or "ok" in done.stdout


def test_candidates_are_judged_without_a_library_of_the_controller(tmp_path: Path) -> None:
    (tmp_path / "solution.py").write_text("def run(:\n")
    evaluated = bare("evaluate", "muon", "solution.py", "--json", folder=tmp_path)
    assert evaluated.returncode == 1, evaluated.stderr
    verdict = json.loads(evaluated.stdout)
    assert verdict["status"] == "compile_error" and verdict["eligible"] is False
    assert verdict["environment"]["device"] == "cpu" and verdict["geomean_speedup"] is None
    profiled = bare("profile", "muon", "solution.py", folder=tmp_path)
    assert profiled.returncode == 1
    assert "Status: compile_error" in profiled.stdout and "no profile: candidates ran on the CPU" in profiled.stdout


def test_solve_without_its_packages_is_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "script.json"
    path.write_text('{"replies": [{"content": "done"}]}')
    done = bare("solve", "muon", "--model", f"scripted/{path}", folder=tmp_path)
    assert done.returncode == 3
    assert done.stderr.startswith("d2k-agent: the package ") and "make env" in done.stderr
    assert "Traceback" not in done.stderr


def in_a_shell(line: str, folder: Path, **extra: str) -> subprocess.CompletedProcess[bytes]:
    """A shell's `line` in which "$@" is the command d2k-agent."""
    words = ["sh", "-c", line, "sh", *command()]
    return subprocess.run(words, cwd=folder, env=environment(extra), capture_output=True, check=False)


def test_a_run_goes_on_when_its_reader_goes_away(tmp_path: Path) -> None:
    model = script(tmp_path, *(call("bash", command="sleep 0.3") for _ in range(3)))
    in_a_shell(f"\"$@\" solve muon --model '{model}' --run-dir run | head -2", tmp_path)
    assert events(tmp_path / "run")[-1]["type"] == "run_finished"


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_command_may_be_started_without_streams(closed: str, tmp_path: Path) -> None:
    model = script(tmp_path, call("read", path="config.json"))
    done = in_a_shell(f"\"$@\" solve muon --model '{model}' --run-dir run {closed}", tmp_path)
    assert (done.returncode, done.stderr) == (0, b"")
    assert events(tmp_path / "run")[-1]["type"] == "run_finished"
    assert b"run_finished" in in_a_shell('"$@" trace show run --json 2>&-', tmp_path).stdout


def test_a_full_stdout_is_told_once(tmp_path: Path) -> None:
    done = in_a_shell('"$@" tasks list > /dev/full', tmp_path)
    assert done.returncode == 3
    (complaint,) = done.stderr.splitlines()
    assert complaint.startswith(b"d2k-agent: the disk is full")


def test_a_terminal_of_ascii_gets_ascii(tmp_path: Path) -> None:
    done = in_a_shell('"$@" tasks stage muon --out "größe"', tmp_path, PYTHONIOENCODING="ascii")
    assert done.returncode == 0, done.stderr
    assert b"gr\\xf6\\xdfe" in done.stdout


def test_an_argument_that_is_no_text_is_refused(tmp_path: Path) -> None:
    done = in_a_shell('"$@" solve muon --run-dir "$(printf \'x\\377\')"', tmp_path)
    assert done.returncode == 2 and b"Traceback" not in done.stderr
    assert b"is no UTF-8 text" in done.stderr
