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
from tests.cli.shell import Answer, command, environment, without_override
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
