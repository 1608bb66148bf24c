"""Latencies recorded for a task: read whole, absent where nothing was measured, refused where they are damaged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from d2k_agent.catalog import source_latencies
from d2k_agent.errors import UsageError

WHOLE = {
    "workloads": {"large": {"reference_ms": 8.0, "baseline_ms": 6.0, "expert_ms": 2.0}},
    "provenance": {"device": "NVIDIA H200"},
}


def recorded(folder: Path, data: object) -> Path:
    (folder / "hidden").mkdir()
    (folder / "hidden" / "baselines.json").write_text(json.dumps(data))
    return folder


def test_latencies_come_with_their_ratio(tmp_path: Path) -> None:
    found = source_latencies(recorded(tmp_path, WHOLE))["large"]
    assert (found.device, found.speedup) == ("NVIDIA H200", 3.0)


def test_where_nothing_was_measured_there_is_nothing(tmp_path: Path) -> None:
    assert source_latencies(tmp_path) == {}


@pytest.mark.parametrize("value", [0, -1.0, float("nan"), float("inf"), "2", True, None, 10**400])
def test_a_latency_that_cannot_be_is_named(tmp_path: Path, value: object) -> None:
    whole = WHOLE["workloads"]["large"]
    folder = recorded(tmp_path, {**WHOLE, "workloads": {"large": {**whole, "expert_ms": value}}})
    with pytest.raises(
        UsageError, match=r"baselines\.json: expert_ms of workload large must be a finite number above 0"
    ):
        source_latencies(folder)


@pytest.mark.parametrize("damaged", [{}, {**WHOLE, "workloads": {"large": {}}}, {**WHOLE, "workloads": {"large": 3}}])
def test_a_damaged_record_is_named(tmp_path: Path, damaged: object) -> None:
    with pytest.raises(UsageError, match=r"baselines\.json: .*measure again"):
        source_latencies(recorded(tmp_path, damaged))


def test_other_numbers_of_ranks_are_read_beside_the_usual_one(tmp_path: Path) -> None:
    four = {**WHOLE, "workloads": {"large": {"reference_ms": 9.0, "baseline_ms": 8.0, "expert_ms": 2.0}}}
    both, alone = {**WHOLE, "other_ranks": {"4": four}}, {"other_ranks": {"4": four}}
    for name, data, speedups in (
        ("both", both, (3.0, 4.0)),
        ("alone", alone, (None, 4.0)),
        ("usual", WHOLE, (3.0, None)),
    ):
        (tmp_path / name).mkdir()
        folder = recorded(tmp_path / name, data)
        found = [source_latencies(folder, ranks).get("large") for ranks in (None, 4)]
        assert tuple(item and item.speedup for item in found) == speedups
        assert source_latencies(folder, 8) == {}


def test_damaged_other_ranks_are_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="other_ranks must be an object by numbers of ranks, not 4"):
        source_latencies(recorded(tmp_path, {**WHOLE, "other_ranks": 4}))
