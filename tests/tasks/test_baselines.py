"""Recorded latencies belong to the sources that lie here: numbers of another text would mislead."""

from __future__ import annotations

import hashlib
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
RECORDED = sorted((ROOT / "tasks").glob("*/hidden/baselines.json"))


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.parents[1].name)
def test_recorded_latencies_are_of_these_sources_and_say_where_they_were_measured(path: Path) -> None:
    whole = json.loads(path.read_text(encoding="utf-8"))
    others = whole.pop("other_ranks", {})
    assert whole or others
    for data in (*[whole] * bool(whole), *others.values()):
        holds_for(path.parents[1], data)


def holds_for(folder: Path, data: dict[str, Any]) -> None:
    guidance = ROOT / "guidance" / folder.name
    sources = {
        "reference": folder / "reference.py",
        "baseline": guidance / "baseline.py",
        "expert": guidance / "expert.py",
    }
    recorded = data["provenance"]["sha256"]
    assert recorded == {name: hashlib.sha256(file.read_bytes()).hexdigest() for name, file in sources.items()}, (
        f"measure again: make gpu-tasks TASKS={folder.name} WRITE=1"
    )
    assert all(data["provenance"][name] for name in ("device", "driver", "torch", "triton", "policy", "date", "method"))
    labels = [workload["label"] for workload in json.loads((folder / "config.json").read_text())["workloads"]]
    assert list(data["workloads"]) == labels
    for latencies in data["workloads"].values():
        assert 0 < latencies["expert_ms"] < latencies["baseline_ms"]
        assert latencies["reference_ms"] > 0


@pytest.mark.parametrize(("words", "stored"), [((), False), (("WRITE=1",), True)])
def test_make_stores_latencies_where_it_is_asked_to(words: tuple[str, ...], stored: bool) -> None:
    done = subprocess.run(
        ["make", "--dry-run", "gpu-tasks", *words], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert "benchmarks/gpu/tasks.py" in done.stdout
    assert ("--write" in done.stdout) is stored
