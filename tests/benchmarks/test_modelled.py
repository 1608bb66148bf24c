"""The figures of modelled against measured, from points that are known."""

from __future__ import annotations

import pytest

from benchmarks.modelled import Point, figures, measured_sources, ordered_pairs, print_points, spearman
from d2k_agent.catalog import find_task


def test_rank_correlation_with_ties_and_without_a_meaning() -> None:
    assert spearman([(1, 10), (2, 20), (3, 15)]) == pytest.approx(0.5)
    assert spearman([(1, 1), (2, 2), (3, 2)]) == pytest.approx(0.866, abs=1e-3)
    assert spearman([(1, 1)]) is None and spearman([(1, 1), (2, 1)]) is None


def test_a_tie_is_no_right_order() -> None:
    assert ordered_pairs([(1, 5), (2, 5), (3, 9)]) == (2, 3)


def test_figures_leave_out_what_was_not_modelled_and_the_table_names_it(capsys: pytest.CaptureFixture[str]) -> None:
    points = [
        Point("t", "w", "fast", 10.0, 9.0),
        Point("t", "w", "slow", 20.0, 16.0),
        Point("t", "w", "odd", 30.0, None, "its grid depends on contents"),
    ]
    found = figures(points)
    assert (found["points"], found["modelled"], found["median_ratio"]) == (3, 2, pytest.approx(0.85))
    assert found["workloads"]["t/w"] == {"sources": 2, "spearman": pytest.approx(1.0), "right": 1, "pairs": 1}
    print_points(points, ["t: the reference is no Triton"])
    text = capsys.readouterr().out
    assert "not modelled: w, odd: its grid depends on contents" in text
    assert "left out: t: the reference is no Triton" in text


def test_sources_are_those_with_stored_latencies_of_that_very_text() -> None:
    left_out: list[str] = []
    found = list(measured_sources(find_task("muon"), left_out))
    sources = {source.name: source for source in found}
    assert len(sources) == len(found), "a run put together of another one's turns does not count again"
    assert {"sample turn 6", "sample turn 10", "sample turn 12"} <= set(sources)
    assert "muon: turn 9 of the sample muon was not measured" in left_out
    assert all(ms > 0 for source in sources.values() for ms in source.measured_ms.values())
    moe: list[str] = []
    assert [source.name for source in measured_sources(find_task("moe_grouped_topk"), moe)] == ["baseline", "expert"]
    assert moe == ["moe_grouped_topk: the reference is no Triton"]
