"""Any way to name a task that a person would try, and sentences for the ways that lead nowhere."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from d2k_agent.catalog import find_task, list_tasks, sample_trace, tasks_dir
from d2k_agent.errors import UsageError
from tests.catalog.tasks_on_disk import CONFIG, write_task


@pytest.mark.parametrize("name", ["muon", "tasks/muon", "tasks/muon/", "muon/", tasks_dir() / "muon"])
def test_a_shipped_task_by_any_of_its_names(name: str | Path, tmp_path: Path) -> None:
    task = find_task(name)
    assert task.slug == "muon"
    assert task.category == "training/structural"
    assert task.title == "Muon: five-step polynomial orthogonalization"
    assert [workload.label for workload in task.workloads] == [
        "production_b32_m2048_n5464",
        "production_b32_m4096_n11008",
        "production_b8_m7168_n18432",
    ]
    assert task.workloads[0].params["batch_size"] == 32


def test_every_shipped_task_is_listed_by_slug() -> None:
    slugs = [task.slug for task in list_tasks()]
    assert "muon" in slugs
    assert slugs == sorted(slugs)


def test_a_folder_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_task(tmp_path / "my_task")
    assert find_task(tmp_path / "my_task").slug == "my_task"
    monkeypatch.chdir(tmp_path)
    for name in ("./my_task", "my_task", "./my_task/"):
        task = find_task(name)
        assert (task.slug, task.title, task.category) == ("my_task", "Doubling", "elementwise")
        assert task.guidance_data()["level_2_dataflow_design"]["stages"]
    monkeypatch.chdir("my_task")
    assert find_task(".").slug == "my_task"


@pytest.mark.parametrize("inside_too", [False, True])
def test_a_task_of_another_checkout_has_that_checkouts_guidance(tmp_path: Path, inside_too: bool) -> None:
    folder = tmp_path / "tasks" / "muon"
    write_task(folder)
    apart = tmp_path / "guidance" / "muon"
    shutil.copytree(folder / "guidance", apart)
    if not inside_too:
        shutil.rmtree(folder / "guidance")
    task = find_task(folder)
    assert task.guidance == apart.resolve()
    assert task.guidance_data()["level_2_dataflow_design"]["stages"]


def test_a_minimal_folder_needs_a_config_only(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"workloads": [{"label": "a"}]}')
    task = find_task(tmp_path)
    assert (task.title, task.category, task.guidance) == (tmp_path.name, "uncategorised", None)


@pytest.mark.parametrize(
    "name", ["moun", "tasks/moun", "", " ", "./nowhere", "../tasks", "a" * 5000, "mu\0on", ".", "tasks/.."]
)
def test_what_is_no_task_lists_those_that_are(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=r"Tasks that ship: .*muon"):
        find_task(name)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"workloads": [\n  {"label": "a",}\n]}', r"config\.json, line 2, column \d+"),
        ("", r"config\.json, line 1"),
        ("[1]", r"config\.json, line 1: an object"),
        ('{"benchmark_id": "x"}', r"config\.json, line 1: 'workloads' must be a list"),
        ('{\n"benchmark_id": "x",\n"workloads": [{"name": "a"}]}', r"config\.json, line 3: workload 0 needs"),
        ('{"workloads": [7]}', r"workload 0 needs a text 'label'"),
        ('{"workloads": []}', r"at least one workload"),
        ("[" * 100_000, r"config\.json"),
    ],
)  # fmt: skip
def test_a_broken_config_is_named_with_its_line(text: str, said: str, tmp_path: Path) -> None:
    write_task(tmp_path, files={"config.json": text})
    with pytest.raises(UsageError, match=said):
        find_task(tmp_path)


def test_a_broken_hidden_file_is_named_with_its_line(tmp_path: Path) -> None:
    write_task(tmp_path, files={"hidden/workloads.json": "{\n"})
    with pytest.raises(UsageError, match=r"workloads\.json, line 2"):
        find_task(tmp_path)


def test_a_config_that_is_not_text(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes(b'{"workloads": "\xff"}')
    with pytest.raises(UsageError, match="not UTF-8"):
        find_task(tmp_path)


def test_a_missing_shared_file_is_named(tmp_path: Path) -> None:
    task = find_task(write_task(tmp_path, files={"reference.py": None}))
    with pytest.raises(UsageError, match=r"reference\.py"):
        task.public_files()
    with pytest.raises(UsageError, match=r"reference\.py"):
        task.bundle()


def test_a_bundle_changes_with_any_file(tmp_path: Path) -> None:
    first = find_task(write_task(tmp_path / "a")).bundle().digest
    assert find_task(write_task(tmp_path / "b" / "a")).bundle().digest == first
    changed = write_task(tmp_path / "c" / "a", config={**CONFIG, "benchmark_id": "triple"})
    assert find_task(changed).bundle().digest != first
    hidden = write_task(tmp_path / "d" / "a", files={"hidden/rules.toml": "# stricter\n"})
    assert find_task(hidden).bundle().digest != first


def test_the_sample_of_a_task_is_found_by_its_slug(tmp_path: Path) -> None:
    for name in ("muon-b", "muon-a", "muonic", "other"):
        (tmp_path / name).mkdir()
    (tmp_path / "muon.txt").touch()
    assert sample_trace("muon", tmp_path) == tmp_path / "muon-a"
    (tmp_path / "muon").mkdir()
    assert sample_trace("muon", tmp_path) == tmp_path / "muon"
    assert sample_trace("absent", tmp_path) is None
    assert sample_trace("muon", tmp_path / "nowhere") is None


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_without_permission_is_named(tmp_path: Path) -> None:
    write_task(tmp_path)
    (tmp_path / "config.json").chmod(0)
    with pytest.raises(UsageError, match="permissions"):
        find_task(tmp_path)
