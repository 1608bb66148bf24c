"""A new task is complete but for its texts, and says which these are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from d2k_agent.catalog import check_task, find_task, new_task, wrong_kernels
from d2k_agent.catalog.scaffold import UNWRITTEN
from d2k_agent.cli.entry import main
from d2k_agent.errors import UsageError
from tests.cli.shell import assert_refused, d2k

Printed = pytest.CaptureFixture[str]


def test_all_that_is_left_is_to_write(tmp_path: Path) -> None:
    names = new_task("my_router", tmp_path / "my_router")
    assert {"task_description.md", "hidden/check.py", "guidance/guidance.json", "guidance/wrong.toml"} <= set(names)
    task = find_task(tmp_path / "my_router")
    assert (task.slug, task.title) == ("my_router", "my_router")
    failed = [finding for finding in check_task(task) if not finding.passed]
    assert [finding.check for finding in failed] == ["written"]
    for name in ("task_description.md", "config.json", "guidance.json", "expert.py", "baseline.py"):
        assert f"{name} has " in failed[0].message
    assert len(wrong_kernels(task)) == 1


def test_its_code_holds_before_its_texts_are_written(tmp_path: Path, capsys: Printed) -> None:
    pytest.importorskip("torch")
    assert main(["tasks", "new", "mine", "--out", str(tmp_path / "mine"), "--json"]) == 0
    assert "reference.py" in json.loads(capsys.readouterr().out)["files"]
    assert main(["tasks", "check", str(tmp_path / "mine"), "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    findings, seen = ({item["check"]: item[name] for item in told} for name in ("passed", "seen"))
    assert seen["wrong kernels"] == "1 of 1 fail where they must"
    assert seen["expert"].endswith("on a CPU; registered shapes are for a GPU") and "small workloads" in seen["expert"]
    assert findings.pop("written") is False
    assert {"proof", "compiles", "expert", "baseline", "wrong kernels"} <= set(findings)
    assert all(findings.values()), findings


def test_what_was_written_is_not_asked_for_again(tmp_path: Path) -> None:
    new_task("mine", tmp_path / "mine")
    for path in (tmp_path / "mine").rglob("*"):
        if path.suffix in (".md", ".json", ".py"):
            path.write_text(path.read_text().replace(UNWRITTEN, f"Written for {path.name}"))
    findings = {finding.check: finding for finding in check_task(find_task(tmp_path / "mine"))}
    assert findings["written"].passed


@pytest.mark.parametrize("slug", ["", "My", "a-b", "1st", "../up", "a b"])
def test_a_name_that_is_none_is_refused(slug: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no name for a task"):
        new_task(slug, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_what_is_there_stays(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    done = d2k("tasks", "new", "mine", folder=tmp_path)
    assert_refused(done, 2, "mine exists: name another folder with --out, or remove it")
