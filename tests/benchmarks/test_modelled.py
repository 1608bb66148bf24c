"""The figures of modelled against measured, from points that are known."""

from __future__ import annotations

import pytest

from benchmarks.modelled import Point, figure_lines, figures, measured_sources, ordered_pairs, print_points, spearman
from d2k_agent.catalog import find_task


def test_rank_correlation_with_ties_and_without_a_meaning() -> None:
    assert spearman([(1, 10), (2, 20), (3, 15)]) == pytest.approx(0.5)
    assert spearman([(1, 1), (2, 2), (3, 2)]) == pytest.approx(0.866, abs=1e-3)
    assert spearman([]) is None and spearman([(1, 1), (2, 1), (3, 1)]) is None
    assert spearman([(1, 1), (2, 2)]) is None, "of two it can only be 1 or -1"


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
    assert found["workloads"]["t/w"] == {
        "sources": 2,
        "spearman": None,
        "right": 1,
        "pairs": 1,
        "measured_speedup": None,
        "modelled_speedup": None,
    }
    print_points(points, ["t: the reference is no Triton"])
    text = capsys.readouterr().out
    assert "t/w: 1 of 1 pairs in the right order\n" in text and "correlation" not in text
    assert "not modelled: w, odd: its grid depends on contents" in text
    assert "left out: t: the reference is no Triton" in text


def test_ratios_are_told_by_kind_of_source_and_speedups_by_workload() -> None:
    points = [
        Point("t", "a", "expert", 10.0, 9.0),
        Point("t", "a", "baseline", 40.0, 24.0),
        Point("t", "a", "sample turn 3", 20.0, 16.0),
        Point("t", "b", "expert", 10.0, 11.0),
        Point("t", "b", "baseline", 20.0, 33.0),
    ]
    found = figures(points)
    assert found["kinds"] == {
        "expert": {"points": 2, "median_ratio": pytest.approx(1.0)},
        "baseline": {"points": 2, "median_ratio": pytest.approx(1.125)},
        "sample candidates": {"points": 1, "median_ratio": pytest.approx(0.8)},
    }
    a, b = found["workloads"].values()
    assert (a["spearman"], a["measured_speedup"], a["modelled_speedup"]) == pytest.approx((1.0, 4.0, 24 / 9))
    assert (b["spearman"], b["measured_speedup"], b["modelled_speedup"]) == (None, 2.0, 3.0)
    lines = list(figure_lines(found))
    assert "modelled / measured, baseline: median 1.12 of 2" in lines
    told = "3 of 3 pairs in the right order, rank correlation 1 of 3 sources; expert over baseline"
    assert f"t/a: {told} 4 measured, 2.67 modelled" in lines
    # 0.667 and 1.5.
    assert (
        lines[-1] == "modelled speedup / measured: median 1.08, 0.667 to 1.5; smaller than measured on 1 of 2 workloads"
    )


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
