"""The order of checks where latencies are measured: baseline, correctness, timing, one lease for all of them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.evaluator.scaling import HONEST, KERNEL, after_calls

ROOT = Path(__file__).parents[2]
WRONG = KERNEL + "def run(x, factor):\n    return scaled(x, 1.0)\n"
LATER = after_calls(36, "x * factor")
"""No quicker with PyTorch than without: the clocks have nothing to say of it."""
HOLDS_MORE_LATER = after_calls(36, "torch.empty(1 << 22, device=x.device)")
COPIES_MORE_LATER = after_calls(36, "torch.empty(1 << 14, device=x.device).clone()")
"""Within the bounds while it is checked: 16 MiB where about 1 MiB are allowed, 64 KiB where 8 KB are."""
BY_PLACE = (
    KERNEL
    + """
box = {"seen": set(), "last": 0, "checked": 0}


def run(x, factor):
    place = x.data_ptr()
    if place == box.get("last"):
        box["checked"] = place
    box["last"] = place
    box["x"] = x
    known = place in box.get("seen")
    box.get("seen").add(place)
    if known and place != box.get("checked"):
        box.get("x") * factor
    return scaled(x, factor)
"""
)
"""Honest where a place is new, and where a call is likely to be looked at: twice in a row on one place."""
STARTS_A_PROGRAM = (
    KERNEL
    + """
import subprocess


def run(x, factor):
    subprocess.run(["/there/is/none"], check=True)
    return scaled(x, factor)
"""
)
UNRULED = (LATER, BY_PLACE, STARTS_A_PROGRAM)
CANDIDATES = {
    "first": (HONEST, HONEST),
    "second": (HONEST, HONEST),
    "wrong": (WRONG, HONEST),
    "wrong baseline": (HONEST, WRONG),
    "wrong baseline again": (HONEST, WRONG),
    "no baseline": (HONEST, None),
    "does not load": ("import nothing_like_it\n\n" + HONEST, HONEST),
    "raises in its first call": (STARTS_A_PROGRAM, HONEST),
    "torch in later calls": (LATER, HONEST),
    "torch on places of timed calls": (BY_PLACE, HONEST),
    "memory in later calls": (HOLDS_MORE_LATER, HONEST),
    "copies in later calls": (COPIES_MORE_LATER, HONEST),
    "last": (HONEST, HONEST),
}


@pytest.fixture(scope="module")
def judged() -> dict[str, dict[str, Any]]:
    """What each came to, by one evaluator, in this order; after each the lease was free."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.evaluator.judged_on_cpu"],
        input=json.dumps(
            [
                {"candidate": source, "baseline": baseline, "static_rules": source not in UNRULED}
                for source, baseline in CANDIDATES.values()
            ]
        ),
        capture_output=True, text=True, cwd=ROOT, timeout=240, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return dict(zip(CANDIDATES, map(json.loads, done.stdout.splitlines()), strict=True))


def test_the_baseline_is_measured_before_the_candidate_is_started_and_only_once(judged: dict[str, Any]) -> None:
    first = judged["first"]["steps"]
    assert first.index("timing the baseline") < first.index("correctness") < first.index("timing")
    assert "starting the baseline" not in judged["second"]["steps"]


@pytest.mark.parametrize("name", ["first", "second", "no baseline", "last"])
def test_a_right_candidate_has_a_latency(judged: dict[str, Any], name: str) -> None:
    assert judged[name]["status"] == "passed", judged[name]
    (measured,) = [item for item in judged[name]["results"] if item["registered"]]
    assert measured["mean_ms"] > 0
    assert (measured["baseline"] is None) == (name == "no baseline")


def test_a_call_after_the_timed_ones_tells_what_they_computed_with(judged: dict[str, Any]) -> None:
    assert judged["torch in later calls"]["status"] == "rule_violation", judged["torch in later calls"]
    assert judged["torch in later calls"]["message"].startswith("run() computed with PyTorch (mul)")
    assert "auditing large" in judged["torch in later calls"]["steps"], "it was found when all was timed"


def test_calls_of_a_batch_are_metered_and_cannot_be_told_from_others(judged: dict[str, Any]) -> None:
    found = judged["torch on places of timed calls"]
    assert found["status"] == "rule_violation", found
    assert found["message"].startswith("run() computed with PyTorch (mul)")


@pytest.mark.parametrize(("name", "gate"), [("memory in later calls", "memory"), ("copies in later calls", "copies")])
def test_the_bounds_of_a_call_are_those_of_timed_calls(judged: dict[str, Any], name: str, gate: str) -> None:
    found = judged[name]
    assert found["status"] == "incorrect", found
    (large,) = [item for item in found["results"] if item["registered"]]
    assert [check["gate"] for check in large["checks"] if not check["passed"]] == [gate]
    assert "timing large" in found["steps"], "it was within them when it was checked"


def test_a_wrong_candidate_is_not_timed(judged: dict[str, Any]) -> None:
    assert judged["wrong"]["status"] == "incorrect"
    assert "timing" not in judged["wrong"]["steps"]


def test_a_wrong_baseline_is_ended_and_blamed_each_time(judged: dict[str, Any]) -> None:
    for name in ("wrong baseline", "wrong baseline again"):
        assert "baseline.py is wrong" in judged[name]["task_fault"]
        assert "starting the baseline" in judged[name]["steps"]
        assert judged[name]["baselines"] == 1, "the honest one alone is up"


def test_a_source_that_does_not_load_is_told_why(judged: dict[str, Any]) -> None:
    assert judged["does not load"]["status"] != "passed"
    assert "nothing_like_it" in judged["does not load"]["message"]


def test_the_rule_that_a_first_call_broke_goes_before_what_it_raised(judged: dict[str, Any]) -> None:
    found = judged["raises in its first call"]
    assert found["status"] == "rule_violation", found
    assert "subprocess.Popen" in found["message"]
