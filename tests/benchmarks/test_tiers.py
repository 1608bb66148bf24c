"""What the benchmark of the tiers submits, and when it says that both orders rank alike; measuring needs a GPU."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from benchmarks.gpu.results import ResultsFile
from benchmarks.gpu.tiers import CHEATS, lines, names, protocol, ranking, submissions
from d2k_agent.catalog import find_task
from d2k_agent.contract import Measurement, Verdict, VerdictStatus, WorkloadResult
from d2k_agent.contract.wire import to_data
from tests.agent.scene import HERE

GPU = replace(HERE, device="cuda", device_name="NVIDIA H200")


def timed(name: str, speedup: float, seconds: float) -> tuple[str, Verdict]:
    """A submission with that speedup that held the GPU for so long."""
    measured = Measurement(1.0 / speedup, 10, 1, 1.0 / speedup, "events_batch")
    result = WorkloadResult(
        "large", VerdictStatus.PASSED, mean_ms=measured.mean_ms, speedup=speedup, measurement=measured
    )
    verdict = Verdict(VerdictStatus.PASSED, name, "", GPU, workloads=(result,), geomean_speedup=speedup)
    return name, replace(verdict, seconds={"static": 9.0, "correctness": 1.0, "timing": seconds - 1.0})


def test_all_registered_workloads_are_judged_where_they_are_asked_for() -> None:
    labels = tuple(workload.label for workload in find_task("muon").workloads)
    whole = {name: chosen for name, _, task, chosen in submissions(True) if task.slug == "muon"}
    assert set(whole.values()) == {labels}
    first = {name: chosen for name, _, task, chosen in submissions(False)}
    assert set(first) == {*whole, *CHEATS}
    assert all(first[name] == labels[:1] for name in whole)


def test_the_gpu_seconds_saved_and_another_ranking_are_told() -> None:
    with_tiers = [timed("a", 1.5, 10.0), timed("b", 1.2, 10.0)]
    alike = [timed("a", 1.6, 20.0), timed("b", 1.1, 20.0)]
    other = [timed("a", 1.1, 20.0), timed("b", 1.2, 20.0)]
    assert ranking(with_tiers) == ["a", "b"]
    text = "\n".join(lines(with_tiers, alike))
    assert "GPU seconds: 20 with tiers, 40 without, 50% saved" in text
    assert "ranking: a, b; the same without" in text
    assert "ranking: a, b; NOT the same: b, a without" in "\n".join(lines(with_tiers, other))


def test_what_was_judged_before_is_not_judged_again(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    results, expected = ResultsFile(path), []
    for number, (name, source, task, labels) in enumerate(submissions(False)):
        _, verdict = timed(name, 1.0 + number, 10.0)
        results.add(names(name, source, task, labels, tiers=True)[1], verdict=to_data(verdict))
        expected.append((name, verdict))
    assert protocol("0", True, False, ResultsFile(path)) == expected
    assert len(
        {names(*submission, tiers=tiers)[1] for submission in submissions(False) for tiers in (True, False)}
    ) == (2 * len(expected))
