"""Headroom over modelled floors, the SOL score, and where there is none: against values reckoned by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.gpu.floors import headroom_rows, headroom_table
from d2k_agent.catalog import Counts, find_task
from d2k_agent.contract import Environment, Measurement, Verdict, VerdictStatus, WorkloadResult
from d2k_agent.contract.ceilings import Ceiling, Ceilings, Provenance, Work
from d2k_agent.contract.data_sheets import data_sheet
from d2k_agent.contract.wire import to_data
from d2k_agent.reports.explained_text import explained_text
from d2k_agent.reports.headroom import headroom, headroom_data, headroom_notes, headroom_of, headroom_row, headroom_text
from d2k_agent.reports.measured_text import measured_of_verdict

MEASURED, PRINTED = Provenance("measured", "here"), Provenance("data sheet", "a page")
GPU = Ceilings("a GPU", copy_gb_s=Ceiling(1000.0, PRINTED), fp16_tflops=Ceiling(500.0, MEASURED), l2_bytes=50_000_000)
COUNTS = Counts(reference=Work({"fp16": 5e12}, 1e8), best=Work({"fp16": 2e12}, 1e8))
"""Floors of 10 and 4 ms."""
H200, SHEET = replace(GPU, device_name="NVIDIA H200"), data_sheet("NVIDIA H200")
"""The reference takes 5 / 989.4 s = 5.054 ms by the data sheet, and 4.671 ms at 1980 instead of 1830 MHz."""
assert SHEET is not None
SUSTAINED = "faster than what was sustained when the ceilings were measured"


def timed(mean_ms: float, policy: str = "events_batch", sets: int = 40) -> Measurement:
    return Measurement(mean_ms, 100, 2, mean_ms, policy, sets=sets)


def test_latencies_stand_over_the_best_known_floor_and_the_score_over_the_references() -> None:
    found = headroom(COUNTS, "large", timed(12.0), timed(18.0), GPU)
    assert found.floors.best is not None and found.floors.best.ms == pytest.approx(4.0)
    assert found.floors.reference is not None and found.floors.reference.ms == pytest.approx(10.0)
    assert found.times == pytest.approx(3.0)
    # 18 - 10 over 12 + 18 - 20.
    assert found.sol_score == pytest.approx(0.8) and not found.no_score
    assert headroom_row(found) == ("large", "12 ms", "4 ms", "products", "measured", "3", "10 ms", "0.8")
    assert headroom_notes([found]) == [
        "its candidate's headroom over the modelled floor (measured ceilings): 3 on large",
        "its candidate's SOL score: 0.8 on large",
    ]
    (row,) = headroom_data([found])
    assert (row["headroom"], row["floor_ms"], row["no_score"]) == (pytest.approx(3.0), 4.0, None)


@pytest.mark.parametrize(
    ("measured", "baseline", "gpu", "why"),
    [
        (timed(12), None, GPU, "no baseline was measured"),
        (timed(12), timed(18, "graph_rotating"), GPU, "another policy"),
        (timed(12), timed(9.9), GPU, f"the baseline is not above the reference's floor: it is {SUSTAINED}"),
        (timed(9.9), timed(18), GPU, f"the kernel is below the reference's floor: it is {SUSTAINED}"),
        (timed(12), timed(4.6), H200, "the baseline is not above the reference's floor: it does less than"),
        (timed(12), timed(4.7), H200, f"the baseline is not above the reference's floor: it is {SUSTAINED}"),
        (timed(4.6), timed(18), H200, "the kernel is below the reference's floor: it does less than the reference"),
        (timed(4.7), timed(18), H200, f"the kernel is below the reference's floor: it is {SUSTAINED}"),
        (timed(4.9), timed(18), SHEET, "the kernel is below the reference's floor: it is faster than at the clock"),
        (timed(12), timed(18), Ceilings("a GPU"), "nothing that is known bounds the reference"),
        (timed(12), timed(18), Ceilings("a GPU", launch_us=Ceiling(2.0, MEASURED)).over(GPU), ""),
        (
            timed(12),
            timed(18),
            Ceilings("a GPU", launch_us=Ceiling(11e3, MEASURED)).over(GPU),
            "bound by one launch, which no design can do without",
        ),
    ],
)
def test_where_a_condition_fails_there_is_no_score_and_it_is_said(
    measured: Measurement, baseline: Measurement | None, gpu: Ceilings, why: str
) -> None:
    found = headroom(COUNTS, "large", measured, baseline, gpu)
    assert (found.sol_score is None) == bool(why)
    assert why in found.no_score
    assert (f"No SOL score for large: {found.no_score}." in headroom_text([found])) == bool(why)


@pytest.mark.parametrize(
    ("ms", "gpu", "below"),
    [
        (4.0, H200, ""),
        # 2 / 989.4 s is 2.021 ms, and 1.868 ms at the highest clock.
        (3.9, H200, SUSTAINED),
        (1.87, H200, SUSTAINED),
        (1.86, H200, "faster than the hardware allows"),
        (3.9, GPU, SUSTAINED),
        (1.9, SHEET, "faster than at the clock of the data sheet, which the GPU may exceed"),
    ],
)
def test_what_a_headroom_below_one_means_is_said(ms: float, gpu: Ceilings, below: str) -> None:
    found = headroom(COUNTS, "large", timed(ms), None, gpu)
    assert found.times is not None and (found.times < 1) == bool(below)
    assert headroom_data([found])[0]["below_floor"] == (below or None)
    told = f"eadroom below 1 on large: {below}"
    assert (f"H{told}." in headroom_text([found])) == (f"h{told}" in headroom_notes([found])) == bool(below)


def test_at_the_references_floor_the_score_is_one_and_at_the_baseline_a_half() -> None:
    assert headroom(COUNTS, "large", timed(10), timed(18), GPU).sol_score == 1
    assert headroom(COUNTS, "large", timed(18), timed(18), GPU).sol_score == 0.5


def test_what_stays_in_the_cache_is_subtracted_as_the_measurement_rotated() -> None:
    moved = Counts(Work(memory_bytes=3e6), Work(memory_bytes=3e6))
    found = headroom(moved, "small", timed(0.01, sets=50), None, GPU)
    assert found.floors.best is not None and found.floors.best.ms == pytest.approx(0.002)
    all_stay = headroom(moved, "small", timed(0.01, sets=10), None, GPU)
    assert all_stay.floors.best is None and all_stay.times is None
    assert headroom_notes([all_stay]) == []
    assert headroom_row(all_stay)[2] == "unknown"


def test_the_table_of_a_gpu_comes_from_verdicts_as_data() -> None:
    task = find_task("muon")
    label = task.workloads[0].label
    result = {"label": label, "measurement": to_data(timed(24.8)), "baseline": to_data(timed(90.0))}
    smoke = {"label": "smoke", "measurement": None, "baseline": None}
    environment = {"device_name": "NVIDIA H200", "details": {"l2_bytes": 60 << 20}}
    (row,) = headroom_rows(task, "expert", {"environment": environment, "workloads": [result, smoke]})
    assert row[:2] == ("muon", "expert") and row[2].label == label
    _, cells, *told = headroom_table([row]).splitlines()
    assert cells.split()[:4] == ["muon", "expert", label, "24.8"]
    below = "the kernel is below the reference's floor"
    assert told == [f"No SOL score for muon expert, {label}: {below}: it is {SUSTAINED}."]
    assert headroom_rows(task, "expert", {"environment": {"device_name": "CPU"}, "workloads": [result]}) == []


def test_floors_of_a_ranked_task_are_of_as_many_ranks_as_were_measured() -> None:
    task = find_task("ep_dispatch_fp8")
    label = task.workloads[0].label
    results = [{"label": label, "measurement": to_data(timed(1.0)), "baseline": None}]

    def floor(*gpus: str) -> float:
        environment = {"device_name": "NVIDIA H200", "details": {"ranks": len(gpus), "gpus": gpus}}
        (row,) = headroom_rows(task, "expert", {"environment": environment, "workloads": results})
        best = row[2].floors.best
        assert best is not None
        return best.ms

    two, four = floor("a", "b"), floor(*"abcd")
    assert four > 1.5 * two
    assert floor("a", "a") != two, "nothing crosses a link"


def test_the_page_on_a_submission_has_it_where_floors_are_known() -> None:
    result = WorkloadResult("large", VerdictStatus.PASSED, mean_ms=12.0, measurement=timed(12.0))
    environment = Environment("host", "cuda", "a GPU", "h200", None, "3.12", "2.11", "3.6", "e" * 64, "t" * 64)
    verdict = Verdict(VerdictStatus.PASSED, "a" * 64, "passed", environment, workloads=(result,))
    page = explained_text(verdict, headroom_of(measured_of_verdict(verdict), {"large": COUNTS}, GPU))
    assert "Above the modelled floor\n" in page
    assert "No SOL score for large: no baseline was measured in the session." in page
    assert "modelled floor" not in explained_text(verdict, headroom_of(measured_of_verdict(verdict), {}, GPU))
    assert headroom_of(measured_of_verdict(verdict), {"large": COUNTS}, None) == []
