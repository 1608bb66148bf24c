"""Folders that this user may not enter: a command says so or does without, and never dies of it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from d2k_agent.app.surroundings import Surroundings
from d2k_agent.records import RunFolder
from tests.cli.runs import call, script
from tests.cli.shell import Answer, assert_refused, command, environment, without_override
from tests.models.provider import KEY, serving
from tests.records.test_folder import record

needs_setpriv = pytest.mark.skipif(
    os.geteuid() == 0 and shutil.which("setpriv") is None, reason="root without setpriv: permissions do not hold"
)


def d2k(*arguments: str, folder: Path) -> Answer:
    """A command for which permissions hold."""
    done = subprocess.run(
        [*without_override(), *command(*arguments)],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    return Answer(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    """A run whose agent closed a folder behind itself."""
    run = RunFolder.create(tmp_path / "traces" / "runs" / "a-b", record())
    closed = run.workspace / "closed"
    closed.mkdir()
    (closed / "file").write_text("text")
    closed.chmod(0)
    return run


@needs_setpriv
def test_runs_list_goes_on_past_what_it_may_not_read(run: RunFolder, tmp_path: Path) -> None:
    shut = RunFolder.create(run.path.parent / "shut", record())
    shut.path.chmod(0)
    answer = d2k("runs", "list", "--json", folder=tmp_path)
    assert answer.status == 0, answer.err
    told = {item["run"]: (item["outcome"], item["bytes"]) for item in json.loads(answer.out)}
    assert told == {"a-b": ("interrupted", None), "shut": ("damaged", None)}
    assert "unknown" in d2k("runs", "list", folder=tmp_path).out
    for words in (("trace", "show"), ("resume",), ("runs", "rm")):
        assert_refused(d2k(*words, "shut", folder=tmp_path), 3, "Permission denied", "/shut/", "repeat the command")


@needs_setpriv
def test_runs_rm_enters_what_the_agent_closed(run: RunFolder, tmp_path: Path) -> None:
    answer = d2k("runs", "rm", "a-b", folder=tmp_path)
    assert answer.status == 0, answer.err
    assert not run.path.exists()


def test_runs_rm_follows_no_link_out_of_the_run(run: RunFolder, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o500)
    (run.workspace / "link").symlink_to(outside)
    assert d2k("runs", "rm", "a-b", folder=tmp_path).status == 0
    assert outside.stat().st_mode & 0o777 == 0o500


def test_a_home_that_cannot_be_searched_holds_no_settings(tmp_path: Path) -> None:
    # A name too long is refused as a folder without the right to search it is, also to root.
    around = Surroundings(tmp_path, {}, tmp_path / ("x" * 300), "/usr/bin/python3")
    assert around.settings_file() is None
    assert not RunFolder(tmp_path / ("x" * 300)).exists


@needs_setpriv
def test_where_nothing_can_be_written_another_place_is_named(tmp_path: Path) -> None:
    (tmp_path / "readonly").mkdir(mode=0o555)
    line = ("solve", "muon", "--model", script(tmp_path, call("submit")), "--run-dir", "readonly/a/run")
    assert_refused(d2k(*line, folder=tmp_path), 3, "correct that, then repeat the command; --run-dir")


def test_a_disk_that_is_full_from_the_start_keeps_nothing_of_the_run(tmp_path: Path) -> None:
    model = script(tmp_path, call("write", path="notes.txt", content="much " * 1000))
    line = command("solve", "muon", "--model", model, "--run-dir", "a/run")
    limited = ["sh", "-c", 'ulimit -f 2; exec "$@"', "sh", *line]
    done = subprocess.run(limited, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False)
    answer = Answer(done.returncode, done.stdout, done.stderr)
    assert_refused(answer, 3, "no space is left", "then repeat the command; --run-dir")
    assert not (tmp_path / "a").exists()


def test_a_file_is_no_place_for_a_run(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("precious")
    answer = d2k("solve", "muon", "--model", script(tmp_path, call("submit")), "--run-dir", "taken", folder=tmp_path)
    assert_refused(answer, 2, "taken is a file")


def test_what_is_refused_before_any_reply_is_not_to_be_resumed(tmp_path: Path) -> None:
    with serving([{"status": 404, "body": {"error": {"message": "no such model"}}}]) as server:
        line = ("--model", "openai/absent", "--api-base", f"{server.url}/v1", "--run-dir", "my run")
        done = subprocess.run(
            command("solve", "muon", *line),
            cwd=tmp_path,
            env=environment({"OPENAI_API_KEY": KEY}),
            capture_output=True,
            text=True,
            check=False,
        )
    answer = Answer(done.returncode, done.stdout, done.stderr)
    assert_refused(answer, 2, "Then start a new run", "`d2k-agent runs rm 'my run'`")
    assert "resume" not in answer.err
