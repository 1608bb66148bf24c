"""A score says where it was measured, and calls nothing but the target the target."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from d2k_agent.contract import Verdict, VerdictStatus
from d2k_agent.reports.score import Scored, score_data, score_text
from tests.reports.measured import SHA, timed

SCORED = Scored("run-1", "muon", 12, SHA, "b200", True, "the fastest of 3 eligible submissions")


def on(device_name: str, verdict: Verdict) -> Verdict:
    return replace(verdict, environment=replace(verdict.environment, device_name=device_name, driver="570.1"))


@pytest.mark.parametrize(
    ("device", "target", "on_target", "statement"),
    [
        ("NVIDIA H200", "b200", False, "measured on NVIDIA H200, which is not the target b200"),
        ("NVIDIA B200", "b200", True, "measured on NVIDIA B200, the target b200"),
        ("NVIDIA GB200", "b200", False, "measured on NVIDIA GB200, which is not the target b200"),
        ("NVIDIA B200 MIG 1g.23gb", "b200", False, "which is not the target b200"),
        ("NVIDIA B200", "h200", False, "measured on NVIDIA B200, which is not the target h200"),
    ],
)
def test_nothing_but_the_target_is_called_the_target(device: str, target: str, on_target: bool, statement: str) -> None:
    scored, verdict = replace(SCORED, target=target), on(device, timed())
    data = score_data(scored, verdict, "2030-01-01T00:00:00+00:00")
    assert (data["on_target"], data["measured_on"]) == (on_target, device)
    assert statement in data["statement"] and statement in score_text(scored, verdict)


@pytest.mark.parametrize(
    ("judged_for", "told"),
    [("h200", ", for b200 (the run itself was judged for h200)"), ("b200", ", for b200"), (None, ", for b200")],
)
def test_another_target_than_the_runs_is_pointed_out(judged_for: str | None, told: str) -> None:
    assert replace(SCORED, judged_for=judged_for).title.endswith(told)


def test_a_score_tells_machine_policy_and_table_and_is_json() -> None:
    verdict = on("NVIDIA B200", timed())
    data = json.loads(json.dumps(score_data(SCORED, verdict, "now", evaluator="ssh host"), allow_nan=False))
    assert (data["evaluator"], data["policies"], data["geomean_speedup"]) == ("ssh host", ["events_batch"], 2.0)
    assert (data["machine"]["driver"], data["machine"]["torch"]) == ("570.1", "2.11")
    assert data["verdict"]["workloads"][0]["measurement"]["audit_ms"]
    text = score_text(SCORED, verdict)
    assert text.startswith("muon: turn 12 of run-1 (selection), sha256 aaaaaaaaaaaa, for b200\n")
    assert "driver 570.1, torch 2.11, triton 3.6, Python 3.12" in text
    assert "Geometric mean speedup over the baseline: 2x" in text and "12.35 ms" in text


def test_a_target_on_which_nothing_was_measured_has_no_score() -> None:
    failed = Verdict(VerdictStatus.INCORRECT, SHA, "wrong", on("NVIDIA B200", timed()).environment)
    data = score_data(SCORED, failed, "now")
    assert (data["status"], data["on_target"], data["measured_on"]) == ("incorrect", False, None)
    assert "nothing was measured on NVIDIA B200: this says nothing about b200" in score_text(SCORED, failed)
