"""What was measured, for a model, a person and a script."""

from __future__ import annotations

from dataclasses import replace

from d2k_agent.contract import (
    CompileReport,
    JobKind,
    KernelProfile,
    Profile,
    Verdict,
    VerdictStatus,
    WorkloadResult,
)
from d2k_agent.models import RecordedTurn, compare
from d2k_agent.records import cut
from d2k_agent.reports.measured_text import measured_of_records, measured_of_verdict, measured_text
from d2k_agent.reports.profile_text import profile_text
from d2k_agent.reports.verdict_data import verdict_data
from d2k_agent.reports.verdict_text import answer_text, verdict_text
from tests.reports.measured import H200, SHA, measurement, timed, void, workload


def rows(text: str) -> dict[str, list[str]]:
    """The cells of each line, by its first word."""
    return {line.split()[0]: line.split() for line in text.splitlines() if line.strip()}


def test_each_registered_workload_has_a_row_with_every_clock() -> None:
    text = verdict_text(timed())

    header = ["workload", "claim", "outside", "audit", "device", "baseline", "speedup", "worst", "rel_norm"]
    assert rows(text)["workload"] == header
    assert rows(text)["small"] == "small 12.35 ms 12.36 ms 12.47 ms - 24.69 ms 2x 0.0031".split()
    assert rows(text)["large"][1:3] == ["130.5", "ms"]
    assert "smoke.tiny" not in text


def test_below_it_stand_score_baseline_policy_device_clock_and_power() -> None:
    text = verdict_text(timed())

    assert "Geometric mean speedup over the baseline: 2x" in text
    assert "Baseline: 0123456789ab; it moved by 0.4 % during the measurement" in text
    assert "Timed by events_batch on NVIDIA H200; SM clock 1755 MHz to 1980 MHz; power 688 W to 688 W" in text
    assert "Peak memory: 3.0 GiB" in text
    assert "ran on the CPU" not in text


def test_the_models_answer_is_the_same_and_names_no_machine_or_folder() -> None:
    text = answer_text(JobKind.EVALUATE, timed())

    assert text == verdict_text(timed()) == answer_text(JobKind.CONFIRM, timed())
    assert "somebodys-host" not in text and "secret" not in text and SHA not in text


def test_what_nobody_measured_is_unknown_or_left_out() -> None:
    bare = measurement(2.0, audit_ms=None, sm_mhz=None, power_w=None)
    result = replace(workload("small", 2.0, 4.0), measurement=bare)
    text = measured_text(measured_of_verdict(replace(timed(), workloads=(result,), drift=None, baseline_sha256=None)))

    assert rows(text)["small"][5:7] == ["unknown", "-"], "the profiler is asked at a confirmation only"
    assert "Baseline:" not in text and "moved" not in text and "MHz" not in text and "power" not in text


def test_the_device_clock_and_the_hot_latency_are_shown_where_there_are_any() -> None:
    confirmed = measurement(0.005, device_ms=0.0049, hot_ms=0.0041)
    result = replace(workload("small", 0.005, 0.01), measurement=confirmed)
    text = verdict_text(replace(timed(), workloads=(result,)))

    assert rows(text)["small"][7:9] == ["0.0049", "ms"]
    assert "With one set of inputs (graph_hot): small 0.0041 ms" in text


def test_a_baseline_that_moved_too_far_voids_the_ratios_and_it_is_said() -> None:
    text = verdict_text(void())

    assert "The baseline moved by 3.1 % during the measurement, more than 2 %" in text and "not ranked" in text
    assert rows(text)["small"][10] == "unknown"


def test_without_a_baseline_that_is_said() -> None:
    results = tuple(replace(item, speedup=None, baseline=None) for item in timed().workloads)
    text = verdict_text(replace(timed(), workloads=results, geomean_speedup=None, drift=None, baseline_sha256=None))

    assert "no baseline was measured" in text and "moved" not in text


def test_noise_is_told_as_nobodys_fault_with_the_way_on() -> None:
    result = WorkloadResult("small", VerdictStatus.NOISY, message="segments differ by 4 %")
    text = verdict_text(Verdict(VerdictStatus.NOISY, SHA, "", H200, workloads=(result,)))

    assert text.startswith("Status: noisy")
    assert "small: noisy, segments differ by 4 %" in text
    assert "did not settle" in text and "hand it in again" in text


def test_what_was_read_back_from_the_records_reads_the_same() -> None:
    parts = cut(timed())

    assert parts.times is not None
    assert measured_of_records(parts.verdict, parts.times) == measured_of_verdict(timed())


def test_a_replay_that_measures_other_numbers_differs_in_nothing() -> None:
    """Columns grow with their numbers, and clock and power move."""
    other = tuple(
        replace(workload(label, ms, 3 * ms), measurement=measurement(ms, sm_mhz=1410.0, power_w=97.0))
        for label, ms in (("small", 9.8), ("large", 1130.5))
    )
    now = verdict_text(replace(timed(), workloads=other, geomean_speedup=13.25))
    call = {"id": "c", "type": "function", "function": {"name": "submit", "arguments": "{}"}}
    recorded = RecordedTurn({"role": "assistant", "tool_calls": [call]}, (verdict_text(timed()),))

    conversation = [recorded.message, {"role": "tool", "content": now}]
    assert len(now.splitlines()[3]) != len(verdict_text(timed()).splitlines()[3])
    assert compare([recorded], conversation) == ()
    (moved,) = compare([recorded], [recorded.message, {"role": "tool", "content": now.replace("0.4 %", "1.2 %")}])
    assert moved.numbers_only


def test_scripts_find_the_clocks_the_baseline_and_its_drift() -> None:
    data = verdict_data(timed())

    assert (data["status"], data["eligible"], data["geomean_speedup"], data["drift"]) == ("passed", True, 2.0, 0.004)
    assert data["baseline_sha256"] == "0123456789abcdef" * 4
    assert data["environment"]["device_name"] == "NVIDIA H200"
    small = data["workloads"][0]
    assert (small["label"], small["mean_ms"], small["speedup"], small["rel_norm"]) == ("small", 12.34567, 2.0, 0.0031)
    assert {"outside_ms", "audit_ms", "device_ms", "sm_mhz", "power_w", "policy"} <= small["measurement"].keys()
    assert small["measurement"]["device_ms"] is None
    assert small["baseline"]["mean_ms"] == 24.69134


def test_a_profile_takes_the_place_of_the_compilers_report_and_nothing_is_called_correct() -> None:
    kernel = KernelProfile("gram", 15, 74.0, 0.75, (132, 1, 1), (256, 1, 1))
    report = CompileReport("h200", "sm_90", "3.6", (), ("small",))
    verdict = Verdict(
        VerdictStatus.UNTIMED,
        SHA,
        "profiled",
        H200,
        compile_report=report,
        notes=("one workload",),
        profile=Profile("small", "Nsight Compute", (kernel,), 98.5),
    )

    text = answer_text(JobKind.PROFILE, verdict)
    assert text.startswith(profile_text(verdict.profile)) and "gram" in text and "Note: one workload" in text
    assert "Compiles for" not in text and "untimed" not in text
    assert "Compiles for h200" in answer_text(JobKind.PROFILE, replace(verdict, profile=None))
