"""Timing as a whole, on the CPU: what is measured of honest sources, and what does not get away with being fast."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from tests.evaluator.scaling import HONEST, KERNEL

ROOT = Path(__file__).parents[2]

SLOW = KERNEL + "def run(x, factor):\n    scaled(x, factor)\n    scaled(x, factor)\n    return scaled(x, factor)\n"
REMEMBERS_CONTENTS = (
    KERNEL
    + """
known = {}


def run(x, factor):
    key = (x.data_ptr(), float(x[0]), float(x[-1]))
    if key not in known:
        known.clear()
        known[key] = scaled(x, factor)
    return known[key].clone()
"""
)
SLOW_AFTER_A_PAUSE = (
    KERNEL
    + """
import time

calls = 0
kept = None


def run(x, factor):
    global calls, kept
    calls += 1
    paused = calls > 5 and bool(torch.isnan(kept[0]))  # the supervisor has had the last output poisoned
    began = time.perf_counter()
    kept = scaled(x, factor)
    if paused:
        time.sleep(24 * (time.perf_counter() - began))
    return kept
"""
)
ONLY_WHEN_CALLED_SLOWLY = (
    KERNEL
    + """
import time

last = 0.0
kept = None


def run(x, factor):
    global last, kept
    now = time.perf_counter()
    rushed, last = now - last < 0.05, now
    if kept is None or not rushed:
        kept = scaled(x, factor)
    last = time.perf_counter()
    return kept.clone()
"""
)
WRITES_ITS_INPUT = (
    KERNEL
    + """
calls = 0


def run(x, factor):
    global calls
    calls += 1
    y = scaled(x, factor)
    if calls > 20:
        x[0] += 1
    return y
"""
)
ENDS = (
    KERNEL
    + """
import os

calls = 0


def run(x, factor):
    global calls
    calls += 1
    if calls > 20:
        os._exit(0)
    return scaled(x, factor)
"""
)


def timed(
    sources: dict[str, str | list[str]], baseline: str | None = None, beat: float | None = None
) -> dict[str, Any]:
    texts = {name: [source] if isinstance(source, str) else source for name, source in sources.items()}
    done = subprocess.run(
        [sys.executable, "-m", "tests.evaluator.timed_on_cpu"],
        input=json.dumps({"baseline": baseline, "beat": beat, "sources": texts}),
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    return {answer.get("name", "task"): answer for answer in answers}


@pytest.fixture(scope="module")
def honest() -> dict[str, Any]:
    return timed({"slow": SLOW, "itself": HONEST}, baseline=HONEST)


def test_claim_outside_clock_and_audit_agree_on_an_honest_source(honest: dict[str, Any]) -> None:
    (result,) = honest["itself"]["results"]
    assert result["status"] == "passed"
    clocks = result["measurement"]
    assert clocks["outside_ms"] == pytest.approx(clocks["mean_ms"], rel=0.2)
    assert clocks["audit_ms"] < 4 * clocks["mean_ms"]
    assert clocks["calls"] > 10
    assert clocks["batches"] == 4, "two rounds of two segments: A B B A"
    assert clocks["policy"] == "test_batch"
    assert clocks["device_ms"] is None
    assert result["rel_norm"] == 0


def test_speedups_are_over_the_baseline_of_the_same_session(honest: dict[str, Any]) -> None:
    (slow,) = honest["slow"]["results"]
    assert slow["measurement"]["mean_ms"] > 1.5 * slow["baseline"]["mean_ms"]
    assert honest["slow"]["drift"] is not None
    if slow["speedup"] is not None:  # a busy machine may move the baseline, twice
        assert slow["speedup"] == pytest.approx(slow["baseline"]["mean_ms"] / slow["measurement"]["mean_ms"])
    else:
        assert honest["slow"]["drift"] > 0.02


def test_a_source_behind_the_incumbent_is_measured_once() -> None:
    answer = timed({"slow": SLOW}, baseline=HONEST, beat=5.0)["slow"]
    (result,) = answer["results"]
    assert answer["drift"] is None
    assert result["measurement"]["batches"] == 2


@pytest.fixture(scope="module")
def caught() -> dict[str, Any]:
    return timed(
        {
            "contents": REMEMBERS_CONTENTS,
            "pauses": SLOW_AFTER_A_PAUSE,
            "rushed": ONLY_WHEN_CALLED_SLOWLY,
            "once": [SLOW_AFTER_A_PAUSE, HONEST],
            "writes": WRITES_ITS_INPUT,
            "ends": ENDS,
            "after": HONEST,
        }
    )


def test_looking_at_the_contents_to_remember_them_is_seen_by_the_meter(caught: dict[str, Any]) -> None:
    assert [item["check"] for item in caught["contents"]["violations"]] == ["runtime.operators"]


def test_being_faster_in_a_batch_than_in_lockstep_is_a_violation(caught: dict[str, Any]) -> None:
    assert [item["check"] for item in caught["pauses"]["violations"]] == ["timing.audit"]
    assert "in two processes" in caught["pauses"]["message"]


def test_a_suspicion_that_does_not_repeat_in_a_fresh_process_is_no_violation(caught: dict[str, Any]) -> None:
    (result,) = caught["once"]["results"]
    assert result["status"] == "passed"
    assert any("was timed again" in note for note in caught["once"]["notes"])


def test_work_left_out_when_calls_follow_quickly_is_a_wrong_answer(caught: dict[str, Any]) -> None:
    (result,) = caught["rushed"]["results"]
    assert result["status"] == "incorrect"
    assert {check["gate"] for check in result["checks"] if not check["passed"]} <= {"rel_norm", "finite"}


def test_an_input_that_timed_calls_change_is_noticed(caught: dict[str, Any]) -> None:
    (result,) = caught["writes"]["results"]
    assert result["status"] == "incorrect"


def test_leaving_in_the_middle_of_a_batch_is_this_sources_end(caught: dict[str, Any]) -> None:
    assert caught["ends"]["fault"] == "ended_early"
    assert caught["after"]["results"][0]["status"] == "passed", "the next one is timed as ever"


def test_a_broken_baseline_is_the_tasks_fault() -> None:
    wrong = "def run(x, factor):\n    return x\n"
    assert "baseline.py is wrong" in timed({"any": HONEST}, baseline=wrong)["any"]["task_fault"]
    assert "baseline.py" in timed({"any": HONEST}, baseline="import nothing_like_it\n")["task"]["task_fault"]
