"""A verdict is cut in two, and no time is left in what was found."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from d2k_agent.contract import (
    Check,
    CompileReport,
    Environment,
    Measurement,
    Verdict,
    VerdictStatus,
    Violation,
    WorkloadResult,
)
from d2k_agent.records import Submission, VerdictRecord, cut

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
    assert [(item.label, item.measurement.mean_ms, item.speedup) for item in parts.times.workloads] == [
        ("small", 1.25, 4.5)
    ]
    assert (parts.times.geomean_speedup, parts.times.message) == (4.5, "passed, 4.5 times the baseline")
    assert parts.seconds == {"correctness": 3.25, "compile_report": 12.5}


def test_every_field_of_a_verdict_has_its_place() -> None:
    placed = set(VerdictRecord.model_fields) | {"geomean_speedup", "seconds"}

    assert {field.name for field in dataclasses.fields(Verdict)} == placed


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
