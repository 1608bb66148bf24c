"""Timing as a whole, on the CPU: what is measured of honest sources, and what does not get away with being fast."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from tests.evaluator.scaling import HONEST, KERNEL, after_calls

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

from torch.utils._python_dispatch import _get_current_dispatch_mode

calls = 0
kept = None


def run(x, factor):
    global calls, kept
    calls += 1
    timed = _get_current_dispatch_mode() is None  # nobody meters the operators of this call
    paused = calls > 5 and timed and bool(torch.isnan(kept[0]))  # the supervisor has had the last output poisoned
    began = time.perf_counter()
    kept = scaled(x, factor)
    if paused:
        time.sleep(0.1 + 40 * (time.perf_counter() - began))
    return kept
"""
)
AND_COMPUTES_WHERE_METERED = SLOW_AFTER_A_PAUSE.replace(
    "    kept = scaled", "    timed or calls < 5 or x * 2\n    kept = scaled"
)
SLOWER_FROM_THE_AUDIT_ON = (
    KERNEL
    + """
import time

from torch.utils._python_dispatch import _get_current_dispatch_mode

pauses = 0
kept = None


def run(x, factor):
    global pauses, kept
    timed = kept is not None and _get_current_dispatch_mode() is None
    pauses += timed and bool(torch.isnan(kept[0]))  # the outputs are poisoned before each segment and each step
    began = time.perf_counter()
    kept = scaled(x, factor)
    if pauses > 2:
        time.sleep(6 * (time.perf_counter() - began))
    return kept
"""
)
"""As on a machine that gets other work to do after two segments."""
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
before = {}


def run(x, factor):
    global calls
    calls += 1
    key = x.data_ptr()
    if key in before and float(x[0]) == 77.0:
        x[0] = before[key]
    y = scaled(x, factor)
    if calls > 5:
        before[key] = float(x[0])
        x[0] = 77.0
    return y
"""
)
FAST_IN_THE_SECOND_ROUND = (
    KERNEL
    + """
rounds = 0
last = None
kept = {}
seen = {}


def run(x, factor):
    global rounds, last
    key = x.data_ptr()
    if rounds <= 3 or key not in kept:
        rounds += 1
        kept[key], seen[key] = scaled(x, factor), x[0].clone()
        return kept[key]
    if not torch.equal(x[0], seen[key]) or not torch.equal(kept[key][0], seen[key] * factor):
        kept[key], seen[key] = scaled(x, factor), x[0].clone()
    return kept[key]
"""
)
SLOW_WHILE_TRIED = (
    KERNEL
    + """
import time

from torch.utils._python_dispatch import _get_current_dispatch_mode

poisoned = False
kept = None


def run(x, factor):
    global poisoned, kept
    timed = kept is not None and _get_current_dispatch_mode() is None
    poisoned = poisoned or (timed and bool(torch.isnan(kept[0])))  # as before the first segment that counts
    kept = scaled(x, factor)
    if timed and not poisoned:
        time.sleep(0.1)
    return kept
"""
)
FAST_IN_MOST_ROUNDS = (
    KERNEL
    + """
calls = 0


def run(x, factor):
    global calls
    calls += 1
    if calls > 2 and (calls - 3) % 16 < 12:  # a graph has 16 calls over 4 sets: one round is done properly
        return torch.empty_like(x)
    return scaled(x, factor)
"""
)
REMEMBERS_BY_SET = (
    KERNEL
    + """
calls = 0
kept = {}
seen = {}


def run(x, factor):
    global calls
    calls += 1
    key = x.data_ptr()
    if calls <= 2:
        return scaled(x, factor)
    if key not in kept or not torch.equal(x[0], seen[key]) or not torch.equal(kept[key][0], seen[key] * factor):
        kept[key], seen[key] = scaled(x, factor), x[0].clone()
    return kept[key]
"""
)
HOLDS_MORE_IN_A_GRAPH = after_calls(2, "torch.empty(1 << 22, device=x.device)")
ENDS = after_calls(20, "os._exit(0)")


def timed(
    sources: dict[str, str | list[str]],
    baseline: str | None = None,
    beat: float | None = None,
    n: int = 2000,
    graph: bool = False,
    step_ms: float = 2.0,
    noise: float = 2.0,
    segment_s: float = 0.3,
) -> dict[str, Any]:
    texts = {name: [source] if isinstance(source, str) else source for name, source in sources.items()}
    asked = {"baseline": baseline, "beat": beat, "sources": texts, "n": n, "graph": graph}
    done = subprocess.run(
        [sys.executable, "-m", "tests.evaluator.timed_on_cpu"],
        input=json.dumps({**asked, "step_ms": step_ms, "noise": noise, "segment_s": segment_s}),
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
    assert clocks["policy"] == "test"
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
            "rushed": ONLY_WHEN_CALLED_SLOWLY,
            "writes": WRITES_ITS_INPUT,
            "ends": ENDS,
            "after": HONEST,
        }
    )


def test_looking_at_the_contents_to_remember_them_is_seen_by_the_meter(caught: dict[str, Any]) -> None:
    assert [item["check"] for item in caught["contents"]["violations"]] == ["runtime.operators"]


@pytest.fixture(scope="module")
def paused() -> dict[str, Any]:
    # So small, and segments so long, that one has many calls, of which one follows a pause. Audited steps are long
    # enough for an honest source on a machine that has other work to do, and that one pause is long enough to show.
    sources: dict[str, str | list[str]] = {
        "always": SLOW_AFTER_A_PAUSE,
        "once": [SLOW_AFTER_A_PAUSE, HONEST],
        "loaded": SLOWER_FROM_THE_AUDIT_ON,
    }
    return timed(sources, n=200, step_ms=20.0, segment_s=0.6)


def test_being_faster_in_a_batch_than_in_lockstep_is_a_violation(paused: dict[str, Any]) -> None:
    assert [item["check"] for item in paused["always"]["violations"]] == ["timing.audit"]
    assert "in two processes" in paused["always"]["message"]


def test_clocks_that_do_not_settle_accuse_nobody() -> None:
    answer = timed({"always": SLOW_AFTER_A_PAUSE}, n=200, noise=0.0, segment_s=0.1)["always"]
    (result,) = answer["results"]
    assert (result["status"], answer.get("violations", [])) == ("noisy", [])


def test_clocks_that_do_not_settle_excuse_nothing_that_was_seen_without_a_clock() -> None:
    answer = timed({"always": AND_COMPUTES_WHERE_METERED}, n=200, noise=0.0)["always"]
    assert [item["check"] for item in answer["violations"]] == ["runtime.operators"]


def test_a_suspicion_that_does_not_repeat_in_a_fresh_process_is_no_violation(paused: dict[str, Any]) -> None:
    (result,) = paused["once"]["results"]
    assert result["status"] == "passed"
    assert any("was timed again" in note for note in paused["once"]["notes"])


def test_a_machine_that_becomes_slower_accuses_nobody(paused: dict[str, Any]) -> None:
    (result,) = paused["loaded"]["results"]
    assert (result["status"], paused["loaded"]["notes"]) == ("passed", []), "it was measured again in the same process"


def test_work_left_out_when_calls_follow_quickly_is_a_wrong_answer(caught: dict[str, Any]) -> None:
    (result,) = caught["rushed"]["results"]
    assert result["status"] == "incorrect"
    assert {check["gate"] for check in result["checks"] if not check["passed"]} <= {"rel_norm", "finite"}


def test_an_input_that_timed_calls_change_is_noticed(caught: dict[str, Any]) -> None:
    (result,) = caught["writes"]["results"]
    assert result["status"] == "incorrect"
    assert {check["gate"] for check in result["checks"] if not check["passed"]} == {"mutation"}


def test_leaving_in_the_middle_of_a_batch_is_this_sources_end(caught: dict[str, Any]) -> None:
    assert caught["ends"]["fault"] == "ended_early"
    assert caught["after"]["results"][0]["status"] == "passed", "the next one is timed as ever"


def test_contents_remembered_in_later_calls_are_of_no_use_in_the_audit() -> None:
    answer = timed({"later": FAST_IN_THE_SECOND_ROUND})["later"]
    assert [item["check"] for item in answer["violations"]] == ["timing.audit"]


@pytest.fixture(scope="module")
def graphs() -> dict[str, Any]:
    sources: dict[str, str | list[str]] = {
        "honest": HONEST,
        "last": FAST_IN_MOST_ROUNDS,
        "set": REMEMBERS_BY_SET,
        "held": HOLDS_MORE_IN_A_GRAPH,
    }
    return timed(sources, graph=True, n=600)


def test_an_honest_source_is_timed_in_graphs(graphs: dict[str, Any]) -> None:
    (result,) = graphs["honest"]["results"]
    assert result["status"] == "passed", graphs["honest"]
    clocks = result["measurement"]
    assert clocks["hot_ms"] is not None
    assert clocks["sets"] == 4
    assert clocks["calls"] % 4 == 0, "whole rounds over the sets, however long a call takes here"


def test_calls_of_a_graph_are_metered_for_what_they_hold(graphs: dict[str, Any]) -> None:
    (result,) = graphs["held"]["results"]
    assert result["status"] == "incorrect"
    assert [check["gate"] for check in result["checks"] if not check["passed"]] == ["memory"]


def test_rounds_of_a_graph_that_are_left_out_are_found(graphs: dict[str, Any]) -> None:
    (result,) = graphs["last"]["results"]
    assert result["status"] == "incorrect"


def test_contents_remembered_set_by_set_are_of_no_use_where_all_are_new(graphs: dict[str, Any]) -> None:
    assert [item["check"] for item in graphs["set"]["violations"]] == ["timing.audit"]


def test_what_long_audited_steps_hide_shows_where_new_contents_are_compared_with_known_ones() -> None:
    answer = timed({"set": REMEMBERS_BY_SET}, graph=True, n=200, step_ms=100.0)
    (violation,) = answer["set"]["violations"]
    assert violation["check"] == "timing.audit"
    assert "where it cannot remember" in violation["message"]


def test_a_broken_baseline_is_the_tasks_fault() -> None:
    wrong = "def run(x, factor):\n    return x\n"
    assert "baseline.py is wrong" in timed({"any": HONEST}, baseline=wrong)["any"]["task_fault"]
    assert "baseline.py" in timed({"any": HONEST}, baseline="import nothing_like_it\n")["task"]["task_fault"]


def test_segments_of_calls_that_were_slow_while_they_were_tried_last_as_long_as_any() -> None:
    (result,) = timed({"tried": SLOW_WHILE_TRIED}, graph=True, n=200)["tried"]["results"]
    assert result["status"] == "passed", result
    clocks = result["measurement"]
    assert clocks["calls"] * clocks["outside_ms"] / clocks["batches"] >= 0.8 * 300.0


def test_a_graph_of_slow_calls_lasts_about_as_long_as_a_segment() -> None:
    slow = after_calls(0, "import time; time.sleep(0.08)").replace("import os\n", "")
    (result,) = timed({"slow": slow}, graph=True, n=200)["slow"]["results"]
    assert result["status"] == "passed", result
    clocks = result["measurement"]
    assert clocks["calls"] == clocks["batches"] * 4, "four sets, and two rounds would outlast 0.3 s"
