"""tasks list, show, check and stage."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from d2k_agent.catalog import list_tasks
from d2k_agent.cli.entry import main

Printed = pytest.CaptureFixture[str]
SHARED = {
    "task_description.md",
    "config.json",
    "get_inputs.py",
    "reference.py",
    "implementation_requirements.yaml",
    "solution.py",
}


def test_list_for_scripts_has_the_promised_keys(capsys: Printed) -> None:
    assert main(["tasks", "list", "--json"]) == 0
    tasks = {task["slug"]: task for task in json.loads(capsys.readouterr().out)}
    muon = tasks["muon"]
    assert set(muon) == {"slug", "title", "category", "workloads", "latencies", "floors"}
    assert set(muon["latencies"]) == set(muon["workloads"])
    assert muon["latencies"]["production_b32_m2048_n5464"]["device"] == "NVIDIA H200"
    assert len(muon["workloads"]) == 3 and all(isinstance(label, str) for label in muon["workloads"])


def test_list_is_a_table_for_people(capsys: Printed) -> None:
    assert main(["tasks", "list"]) == 0
    header, *rows = capsys.readouterr().out.splitlines()
    assert header.split() == ["task", "category", "title"]
    assert any(row.startswith("muon ") and "training/structural" in row for row in rows)
    assert "floor ms" in rows[len(list_tasks()) + 1]
    (measured,) = [row.split() for row in rows if "production_b32_m2048_n5464" in row]
    floor, _, baseline, expert, over_floor, speedup = map(float, (measured[2], *measured[5:10]))
    assert measured[3:5] == ["products", "measured"]
    assert over_floor == pytest.approx(expert / floor, rel=1e-3)
    assert speedup == pytest.approx(baseline / expert, rel=1e-3)


def test_show_prints_workloads_and_description(capsys: Printed) -> None:
    assert main(["tasks", "show", "muon"]) == 0
    out = capsys.readouterr().out
    assert "M=2048" in out and "# Muon" in out
    assert main(["tasks", "show", "muon", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["slug"] == "muon" and shown["workloads"][0]["M"] == 2048


def test_check_passes_a_whole_task_and_fails_a_broken_one(capsys: Printed, tmp_path: Path) -> None:
    assert main(["tasks", "check", "muon", "--no-run", "--json"]) == 0
    assert all(item["passed"] for item in json.loads(capsys.readouterr().out))
    (tmp_path / "config.json").write_text('{"workloads": [{"label": "a"}]}')
    assert main(["tasks", "check", str(tmp_path)]) == 1
    assert "FAILED  files: " in capsys.readouterr().out


def test_stage_writes_what_an_agent_would_see_and_nothing_else(capsys: Printed, tmp_path: Path) -> None:
    assert main(["tasks", "stage", "muon", "--out", str(tmp_path / "bare"), "--json"]) == 0
    staged = json.loads(capsys.readouterr().out)
    assert set(staged["files"]) == SHARED == {path.name for path in (tmp_path / "bare").iterdir()}
    assert main(["tasks", "stage", "muon", "--levels", "L1", "--out", str(tmp_path / "guided")]) == 0
    assert {path.name for path in (tmp_path / "guided").iterdir()} == SHARED | {"guidance.json"}
