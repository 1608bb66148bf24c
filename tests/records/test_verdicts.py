"""A verdict is cut in two, and no time is left in what was found."""

from __future__ import annotations

import dataclasses
import json
import re
from typing import Any

import pytest

from d2k_agent.contract import (
    Check,
    CompileReport,
    Environment,
    KernelProfile,
    Measurement,
    Profile,
    Verdict,
    VerdictStatus,
    Violation,
    WorkloadResult,
)
from d2k_agent.records import Submission, Times, VerdictRecord, WorkloadTime, WorkloadVerdict, cut, joined

HERE = Environment("host", "cuda", "H200", "b200", "landlock", "3.11", "2.13", "3.7", "e" * 64, "t" * 64)
SHA = "a" * 64
TIME_KEYS = {"mean_ms", "outside_ms", "speedup", "geomean_speedup", "measurement", "seconds", "times"}


def measured(label: str) -> WorkloadResult:
    return WorkloadResult(
        label,
        VerdictStatus.PASSED,
        (Check("result", "rel_norm", 0.003, 0.012, True),),
        mean_ms=1.25,
        speedup=4.5,
        rel_norm=0.003,
        measurement=Measurement(1.25, 800, 5, 1.251, "events_batch"),
        message="1.25 ms a call",
    )


def fast() -> Verdict:
    return Verdict(
        VerdictStatus.PASSED,
        SHA,
        "passed, 4.5 times the baseline",
        HERE,
        workloads=(measured("small"), WorkloadResult("smoke", VerdictStatus.UNTIMED, registered=False)),
        compile_report=CompileReport("b200", "sm_100", "3.7", (), ("small",), seconds=12.5),
        geomean_speedup=4.5,
        notes=("4.5 times",),
        seconds={"correctness": 3.25},
    )


def keys_and_texts(value: Any) -> tuple[set[str], str]:
    text = json.dumps(value)
    found: set[str] = set()

    def walk(item: Any) -> None:
        if isinstance(item, dict):
            found.update(item)
            for inner in item.values():
                walk(inner)
        elif isinstance(item, list):
            for inner in item:
                walk(inner)

    walk(json.loads(text))
    return found, text


def test_what_was_found_holds_no_time() -> None:
    keys, text = keys_and_texts(cut(fast()).verdict.model_dump(mode="json"))

    assert not keys & TIME_KEYS
    for number in ("1.25", "4.5", "12.5", "3.25"):
        assert number not in text


def test_what_was_measured_holds_it_all() -> None:
    parts = cut(fast())

    assert parts.times is not None
    assert [
        (item.label, item.measurement and item.measurement.mean_ms, item.speedup) for item in parts.times.workloads
    ] == [("small", 1.25, 4.5)]
    assert (parts.times.geomean_speedup, parts.times.message) == (4.5, "passed, 4.5 times the baseline")
    assert parts.seconds == {"correctness": 3.25, "compile_report": 12.5}


def test_every_field_of_a_verdict_has_its_place() -> None:
    placed = set(VerdictRecord.model_fields) | set(Times.model_fields) | {"seconds", "modelled", "sanitizer"}

    assert {field.name for field in dataclasses.fields(Verdict)} == placed
    assert {field.name for field in dataclasses.fields(WorkloadResult)} == (
        set(WorkloadVerdict.model_fields) | set(WorkloadTime.model_fields) | {"mean_ms"}
    )


EVERY_CLOCK = Measurement(
    mean_ms=71.125,
    calls=7129,
    batches=7139,
    outside_ms=71.375,
    policy="events_batch",
    audit_ms=71.625,
    device_ms=71.875,
    hot_ms=72.125,
    sets=7219,
    sm_mhz=7229.0,
    power_w=7237.0,
)
BASELINE = dataclasses.replace(EVERY_CLOCK, mean_ms=73.125, outside_ms=73.375, audit_ms=73.625, device_ms=73.875)
PROFILE = Profile(
    workload="small",
    tool="ncu",
    kernels=(
        KernelProfile(
            name="gram",
            launches=15,
            duration_us=74.125,
            share=0.74375,
            grid=(132, 1, 1),
            block=(256, 1, 1),
            sm_percent=74.625,
            tensor_percent=74.875,
            dram_percent=75.125,
            l2_hit_percent=75.375,
            occupancy_percent=75.625,
            main_stall="math pipe throttle",
            main_stall_percent=75.875,
        ),
    ),
    duration_us=76.125,
    notes=("76.375 us in all",),
)


def everything(**changes: Any) -> Verdict:
    """A verdict in which every field that a measurement fills is filled."""
    result = dataclasses.replace(
        measured("small"),
        mean_ms=71.125,
        measurement=EVERY_CLOCK,
        baseline=BASELINE,
        speedup=77.125,
        message="71.125 ms",
    )
    values: dict[str, Any] = {
        "workloads": (result,),
        "message": "77.125 times the baseline",
        "geomean_speedup": 77.125,
        "notes": ("77.125 times",),
        "baseline_sha256": "b" * 64,
        "drift": 0.0078125,
        "profile": PROFILE,
        **changes,
    }
    return dataclasses.replace(fast(), **values)


def numbers_of_time() -> list[str]:
    """Every number above that speaks of time, as it would be written."""
    told = re.findall(r"\d+\.\d+", repr((EVERY_CLOCK, BASELINE, PROFILE)))
    return [*told, "77.125", "0.0078125", "7129", "7139", "7219", "12.5", "3.25", "math pipe throttle"]


def test_with_every_field_filled_no_number_of_time_is_in_what_was_found() -> None:
    parts = cut(everything())

    _, found = keys_and_texts(parts.verdict.model_dump(mode="json"))
    assert parts.times is not None
    assert len(numbers_of_time()) > 20
    assert [number for number in numbers_of_time() if number in found] == []
    assert (parts.times.drift, parts.times.baseline_sha256, parts.times.profile) == (0.0078125, "b" * 64, PROFILE)
    assert [(item.measurement, item.baseline, item.speedup) for item in parts.times.workloads] == [
        (EVERY_CLOCK, BASELINE, 77.125)
    ]


def test_what_was_measured_comes_back_from_its_json_whole() -> None:
    times = cut(everything()).times

    assert times is not None and Times.model_validate_json(times.model_dump_json()) == times


def noisy() -> Verdict:
    result = WorkloadResult(
        "small", VerdictStatus.NOISY, message="segments between 1.25 ms and 1.5 ms", baseline=BASELINE
    )
    return Verdict(VerdictStatus.NOISY, SHA, "small: 1.25 ms and 1.5 ms", HERE, workloads=(result,))


def forged() -> Verdict:
    """Timing found that the candidate cheats, and says by how much."""
    violation = Violation("timing.audit", "timed work takes 1.25 ms, audited work 4.5 ms")
    result = WorkloadResult("small", VerdictStatus.RULE_VIOLATION, message="1.25 ms")
    return Verdict(
        VerdictStatus.RULE_VIOLATION, SHA, violation.message, HERE, (violation,), (result,), notes=("4.5 ms",)
    )


def wrong_when_timed(phase: str, status: VerdictStatus) -> Verdict:
    """Found in the timed calls, after an attempt whose clocks told too much."""
    result = WorkloadResult("small", status, message="after 1.25 ms a call")
    return Verdict(
        status,
        SHA,
        "small failed after 1.25 ms a call",
        HERE,
        workloads=(result,),
        notes=("timed again: 4.5 ms a call claimed",),
        seconds={"correctness": 3.0, phase: 8.0},
    )


AFTER_TIMING_BEGAN = [
    wrong_when_timed("timing", VerdictStatus.INCORRECT),
    wrong_when_timed("timing.timed", VerdictStatus.RUNTIME_ERROR),
    wrong_when_timed("timing", VerdictStatus.TIMED_OUT),
    wrong_when_timed("timing.tuning", VerdictStatus.ENDED_EARLY),
]


@pytest.mark.parametrize("verdict", [noisy(), forged(), *AFTER_TIMING_BEGAN], ids=lambda item: item.status.value)
def test_the_words_of_a_verdict_without_a_latency_stay_with_the_times_too(verdict: Verdict) -> None:
    parts = cut(verdict)

    _, found = keys_and_texts(parts.verdict.model_dump(mode="json"))
    assert "1.25" not in found and "4.5" not in found and "73.125" not in found
    assert parts.times is not None
    assert (parts.times.message, parts.times.violations) == (verdict.message, verdict.violations)
    assert [item.check for item in parts.verdict.violations] == [item.check for item in verdict.violations]
    assert parts.times.measured == frozenset()


@pytest.mark.parametrize("verdict", [fast(), everything(), noisy(), forged(), *AFTER_TIMING_BEGAN])
def test_what_was_cut_is_joined_again_but_for_how_long_the_checking_took(verdict: Verdict) -> None:
    parts = cut(verdict)
    found = VerdictRecord.model_validate_json(parts.verdict.model_dump_json())
    report = verdict.compile_report and dataclasses.replace(verdict.compile_report, seconds=0.0)

    assert joined(found, parts.times) == dataclasses.replace(verdict, seconds={}, compile_report=report)


def test_a_drift_that_is_no_number_becomes_unknown() -> None:
    times = cut(everything(drift=float("nan"))).times

    assert times is not None and times.drift is None


def test_a_verdict_without_measurements_keeps_its_words() -> None:
    violation = Violation("glue", "line 3: torch.mul computes", 3)
    verdict = Verdict(VerdictStatus.RULE_VIOLATION, SHA, "torch.mul computes", HERE, violations=(violation,))

    parts = cut(verdict)

    assert parts.times is None
    assert (parts.verdict.message, parts.verdict.violations) == ("torch.mul computes", (violation,))


def test_numbers_that_are_not_finite_become_unknown() -> None:
    check = Check("result", "rel_norm", float("inf"), 0.012, False)
    result = WorkloadResult("small", VerdictStatus.INCORRECT, (check,), rel_norm=float("nan"))

    (found,) = cut(Verdict(VerdictStatus.INCORRECT, SHA, "wrong", HERE, workloads=(result,))).verdict.workloads

    assert found.rel_norm is None and found.checks[0].value is None


@pytest.mark.parametrize(
    "changes",
    [
        {"status": "rule_violation"},
        {"violations": [{"check": "glue", "message": "m", "line": None}]},
        {"workloads": []},
        {"mean_ms": 3.0},
    ],
)
def test_an_impossible_record_is_refused(changes: dict[str, Any]) -> None:
    data = {**cut(fast()).verdict.model_dump(mode="json"), **changes}

    with pytest.raises(ValueError, match=r"violations|every registered workload|mean_ms"):
        VerdictRecord.model_validate(data)


def test_a_passed_submission_has_a_measurement_of_every_workload() -> None:
    parts = cut(fast())

    with pytest.raises(ValueError, match="without a measurement of small"):
        Submission(3, "call", SHA, parts.verdict, None)
