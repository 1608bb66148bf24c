"""The shell's side: pipes, exit statuses, the bare machine."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from d2k_agent.cli.entry import main
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


def test_the_first_line_of_solve_is_there_in_under_a_second(tmp_path: Path) -> None:
    def took() -> float:
        begun = time.perf_counter()
        line = ["solve", "muon", "--model", "scripted/none.json"]
        with subprocess.Popen(
            command(*line), cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"d2k-agent: solving muon\n"
            return time.perf_counter() - begun

    assert min(took() for _ in range(3)) < 1.0


def test_graph_draws_the_nodes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["graph"]) == 0
    drawn = capsys.readouterr().out
    assert drawn.lstrip().startswith("---") or "graph TD" in drawn
    for node in ("prepare", "call_model", "run_tool", "evaluate", "close_turn", "select", "confirm", "finalise"):
        assert node in drawn


def test_the_catalog_needs_nothing_but_python(tmp_path: Path) -> None:
    for arguments in (("tasks", "list", "--json"), ("tasks", "check", "muon")):
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
    assert "Status: compile_error" in profiled.stdout and "no profile: this machine has no GPU" in profiled.stdout


def test_solve_without_its_packages_is_a_sentence(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text('{"replies": [{"content": "done"}]}')
    done = bare("solve", "muon", "--model", f"scripted/{script}", folder=tmp_path)
    assert done.returncode == 3
    assert done.stderr.startswith("d2k-agent: the package ") and "make env" in done.stderr
    assert "Traceback" not in done.stderr
