"""Staging writes all that an agent is given, or nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from d2k_agent.catalog import find_task, stage, staged_files
from d2k_agent.errors import UsageError
from tests.catalog.tasks_on_disk import write_task

ROOT = Path(__file__).resolve().parents[2]

STAGE_WITH_LITTLE_ROOM = """
import resource, sys
from pathlib import Path
from d2k_agent.catalog import find_task, stage
from d2k_agent.errors import MachineError
resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
try:
    stage(find_task("muon"), ("L1",), Path(sys.argv[1]))
except MachineError as problem:
    sys.exit(f"{problem.exit_status} {problem}")
"""


def test_a_new_folder_is_made_with_its_parents(tmp_path: Path) -> None:
    task = find_task(write_task(tmp_path / "task"))
    stage(task, ("L1",), tmp_path / "new" / "deep" / "out")
    assert set(os.listdir(tmp_path / "new" / "deep" / "out")) == set(staged_files(task, ("L1",)))
    assert os.listdir(tmp_path / "new" / "deep") == ["out"]


def test_an_empty_folder_is_filled_in_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task = find_task(write_task(tmp_path / "task"))
    (tmp_path / "out").mkdir()
    before = (tmp_path / "out").stat().st_ino
    monkeypatch.chdir(tmp_path / "out")
    stage(task, (), Path("."))
    assert len(os.listdir(".")) == 6
    assert (tmp_path / "out").stat().st_ino == before


def test_a_folder_in_use_is_left_alone(tmp_path: Path) -> None:
    task = find_task(write_task(tmp_path / "task"))
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("mine")
    with pytest.raises(UsageError, match="not empty"):
        stage(task, (), tmp_path / "out")
    assert os.listdir(tmp_path / "out") == ["mine.txt"]


def test_a_file_in_the_way_is_named(tmp_path: Path) -> None:
    task = find_task(write_task(tmp_path / "task"))
    (tmp_path / "out").write_text("mine")
    with pytest.raises(UsageError, match="is a file"):
        stage(task, (), tmp_path / "out")
    with pytest.raises(UsageError, match="cannot be written"):
        stage(task, (), tmp_path / "out" / "below")
    assert (tmp_path / "out").read_text() == "mine"


def test_levels_without_guidance_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    task = find_task(write_task(tmp_path / "task", files={"guidance/guidance.json": None}))
    with pytest.raises(UsageError, match="no guidance: leave the levels out"):
        stage(task, ("L1",), tmp_path / "out")
    assert not (tmp_path / "out").exists()
    stage(task, (), tmp_path / "out")


def test_guidance_that_its_schema_does_not_allow_is_refused(tmp_path: Path) -> None:
    task = find_task(write_task(tmp_path / "task", guidance={"level_1_high_level_algorithmic_insights": "short"}))
    with pytest.raises(UsageError, match=r"guidance\.json: "):
        stage(task, ("L1",), tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("existing", [False, True])
def test_a_full_disk_leaves_nothing_behind(tmp_path: Path, existing: bool) -> None:
    if existing:
        (tmp_path / "out").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", STAGE_WITH_LITTLE_ROOM, str(tmp_path / "out")],
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.stderr.startswith("3 no room to write"), done.stderr
    assert [path.name for path in tmp_path.rglob("*")] == (["out"] if existing else [])
