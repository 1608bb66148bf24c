"""The sample with a plateau: what stopping saves of it and keeps, what it rests on, and that it can be made again."""

from __future__ import annotations

import dataclasses
import runpy
from pathlib import Path
from typing import Any

import pytest

from d2k_agent.catalog import samples_dir
from d2k_agent.cli.entry import main
from d2k_agent.errors import UsageError
from d2k_agent.records import ModelReplied, Trace, curve, read_trace
from d2k_agent.reports.run_header import run_rows

FILE = Path(__file__).parents[2] / "benchmarks" / "stopping.py"
SAMPLE = samples_dir() / "muon-plateau"


@pytest.fixture(scope="module")
def benchmark() -> dict[str, Any]:
    return runpy.run_path(str(FILE))


@pytest.fixture(scope="module")
def sample() -> Trace:
    return read_trace(SAMPLE)


def test_study_stop_tells_what_is_saved_and_kept_and_what_that_rests_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    policies = ("plateau:turns=3,percent=1", "plateau:turns=20,percent=1", "headroom:factor=1.5")
    assert main(["study", "stop", str(SAMPLE), *(word for text in policies for word in ("--policy", text))]) == 0
    shown = capsys.readouterr().out
    rows = [line.split() for line in shown.splitlines()]
    assert rows[1][:5] == "plateau:turns=3,percent=1 muon-plateau 9 of 40".split()
    assert "plateau:turns=20,percent=1 muon-plateau 32 of 40 31.4 % 24.1 % 0.0 % 100.0 %".split() in rows
    assert "headroom:factor=1.5 muon-plateau 12 of 40 85.8 % 72.2 % 7.9 % 100.0 %".split() in rows
    assert rows[1][-2:] == ["40.4", "%"], "it stops before the best two are there"
    assert "it is put together and not a run as it happened" in shown and "and not by a provider" in shown


def test_its_origin_stands_in_its_header_and_its_scores_are_those_of_the_recorded_run(sample: Trace) -> None:
    assert str(dict(run_rows(sample))["origin"]).startswith("it is put together")
    recorded = curve(read_trace(samples_dir() / "muon"))
    assert [point.score for point in curve(sample).points[:13]] == [point.score for point in recorded.points]
    assert {point.score for point in curve(sample).points[13:]} == {recorded.end.score}
    assert "origin" not in dict(run_rows(read_trace(samples_dir() / "muon")))


def test_what_it_cost_is_not_told_as_if_somebody_had_paid_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert main(["cost", str(SAMPLE)]) == 0
    assert "it is put together and not a run as it happened" in " ".join(capsys.readouterr().out.split())


def test_a_folder_that_holds_a_run_is_refused_and_gets_no_lock(benchmark: dict[str, Any], sample: Trace) -> None:
    before = sorted(SAMPLE.iterdir())
    with pytest.raises(UsageError, match="holds a run already"):
        benchmark["record"](read_trace(samples_dir() / "muon"), 16, SAMPLE)
    assert sorted(SAMPLE.iterdir()) == before


def test_it_is_made_again_by_its_script(benchmark: dict[str, Any], sample: Trace, tmp_path: Path) -> None:
    made = read_trace(benchmark["record"](read_trace(samples_dir() / "muon"), 16, tmp_path / "run").path)
    assert made.run.origin == sample.run.origin and made.turns == 16
    assert dataclasses.replace(made.run.config, turns=sample.run.config.turns) == sample.run.config
    assert [point.score for point in curve(made).points] == [point.score for point in curve(sample).points[:17]]
    assert all(event.usage.known for event in made.events if isinstance(event, ModelReplied))
