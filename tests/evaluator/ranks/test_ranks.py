"""Several ranks on the CPU, as a whole: what is found of honest and of wrong sources, and that nobody is left over."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

ROOT = Path(__file__).parents[3]
JUDGED: list[tuple[str, dict[str, Any]]] = [
    ("HONEST", {"workloads": ["smoke_n64", "hidden.zeros"]}),
    ("HONEST", {"ranks": 3, "static_rules": False}),
    ("HONEST", {"ranks": 4}),
    ("HONEST", {"kind": "prove"}),
    ("SILENT", {"static_rules": False}),
    ("FLAG_FIRST", {"static_rules": False}),
    ("RELAXED", {"static_rules": False}),
    ("NEVER_WAITS", {"static_rules": False}),
    ("GIVES_ITS_PAD", {"static_rules": False}),
    ("READS_LATE", {"static_rules": False}),
    ("UNGUARDED", {"static_rules": False}),
    ("RANK_0_SENDS_NOTHING", {"call_s": 3.0, "static_rules": False}),
    ("ALL_WAIT", {"static_rules": False, "interpreted_s": 2.0}),
    ("ALL_WAIT_LATER", {"static_rules": False, "interpreted_s": 6.0}),
    ("RANK_1_ENDS", {"static_rules": False}),
    ("OVERRUN", {"static_rules": False}),
    ("OVERRUN_LATER", {"static_rules": False}),
    ("RAISES_LATER", {"static_rules": False, "workloads": ["smoke_n64", "hidden.zeros"]}),
    ("SLOW_TO_LOAD", {"static_rules": False, "ranks": 3}),
    ("DOES_NOT_LOAD", {"static_rules": False}),
]
TIMED: list[tuple[str, dict[str, Any]]] = [
    ("HONEST", {}),
    ("HONEST", {"graph": True}),
    ("REMEMBERS_UNTIL_POISONED", {"step_ms": 100.0, "audit": 1.5}),
]
"""With what differs in their policy."""
JOBS: list[tuple[str, dict[str, Any]]] = [("BY_GATHERING", {"trusted": True}), ("HONEST", {}), ("BY_TURNS", {})]


@pytest.fixture(scope="module")
def answers() -> dict[str, dict[str, Any]]:
    """What each came to, by name, with the changes of its job where two have one name."""
    asked: dict[str, Any] = {"judged": JUDGED, "expert": True, "timed": TIMED, "jobs": JOBS}
    done = subprocess.run(
        [sys.executable, "-m", "tests.evaluator.ranks.judged"],
        input=json.dumps(asked),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = [json.loads(line) for line in done.stdout.splitlines()]
    timed = [_timed(name, changes) for name, changes in TIMED]
    names = [_named(name, changes) for name, changes in JUDGED] + ["expert"] + timed
    names += [f"job {name}" for name, _ in JOBS]
    return dict(zip(names, found, strict=True))


def _named(name: str, changes: dict[str, Any]) -> str:
    return " ".join([name, *(str(changes[key]) for key in ("ranks", "kind") if key in changes)])


def _timed(name: str, changes: dict[str, Any]) -> str:
    return f"timed {name}{' in graphs' * ('graph' in changes)}"


def failed(answer: dict[str, Any]) -> list[str]:
    checks = [check for result in answer["results"] for check in result["checks"]]
    return [f"{check['output']} {check['gate']}" for check in checks if not check["passed"]]


@pytest.mark.parametrize("name", ["HONEST", "HONEST 3", "READS_LATE"])
def test_an_honest_source_is_right_on_all_ranks(answers: dict[str, dict[str, Any]], name: str) -> None:
    answer = answers[name]
    assert answer["status"] == "untimed", answer["message"]
    assert answer["details"] == {"ranks": 3 if name.endswith("3") else 2}
    variations = ["hidden.zeros"] * (name == "HONEST")
    assert [result["label"] for result in answer["results"]] == ["smoke_n64", *variations]


def test_the_expert_of_the_task_that_ships_is_right(answers: dict[str, dict[str, Any]]) -> None:
    answer = answers["expert"]
    assert answer["status"] == "untimed", answer["message"]
    assert {check["output"] for result in answer["results"] for check in result["checks"]} >= {"cnt", "slot", "recv_q"}


def test_a_task_says_for_how_many_ranks_it_is(answers: dict[str, dict[str, Any]]) -> None:
    assert answers["HONEST 4"]["task_fault"] == "task shifting is for 2 or 3 ranks, not for 4"


def test_a_task_for_several_ranks_is_proved_like_any_other(answers: dict[str, dict[str, Any]]) -> None:
    answer = answers["HONEST prove"]
    assert answer["status"] == "untimed", answer["message"]
    checks = {check["gate"] for result in answer["results"] for check in result["checks"]}
    assert {"deterministic", "draws", "zeros", "ones", "exact"} <= checks


@pytest.mark.parametrize("name", ["SILENT", "FLAG_FIRST", "RELAXED", "NEVER_WAITS"])
def test_data_that_did_not_come_are_missed(answers: dict[str, dict[str, Any]], name: str) -> None:
    answer = answers[name]
    assert answer["status"] == "incorrect", answer["message"]
    # Where a rank is held up is drawn anew for each call: the first of them need not show it.
    assert failed(answer) in (["y finite"], ["y repeat"])
    assert ": rank " in answer["message"]


def test_outputs_are_new_tensors_and_no_views_of_what_connects_the_ranks(answers: dict[str, dict[str, Any]]) -> None:
    answer = answers["GIVES_ITS_PAD"]
    assert answer["status"] == "incorrect", answer["message"]
    assert failed(answer) == ["* aliasing"]


def test_a_call_that_overtakes_the_one_before_is_found(answers: dict[str, dict[str, Any]]) -> None:
    answer = answers["UNGUARDED"]
    assert answer["status"] == "incorrect", answer["message"]
    assert "calls without a pause between them: rank " in answer["message"]


def test_a_rank_that_waits_for_ever_is_named_and_ended(answers: dict[str, dict[str, Any]]) -> None:
    answer = answers["RANK_0_SENDS_NOTHING"]
    assert answer["status"] == "timed_out"
    assert answer["message"].startswith("rank 1 did not finish run() on smoke_n64 within 3 s of rank 0")


def test_ranks_that_all_wait_are_ended_long_before_what_any_other_call_may_take(
    answers: dict[str, dict[str, Any]],
) -> None:
    first, later = answers["ALL_WAIT"], answers["ALL_WAIT_LATER"]
    assert (first["status"], later["status"]) == ("timed_out", "timed_out")
    assert first["message"].startswith("ranks 0, 1 did not finish run() on smoke_n64 within 2 s: waiting for what")
    assert "3 calls of run() on smoke_n64 without a pause within 18 s: waiting for what" in later["message"]


def test_a_rank_that_ends_ends_the_job(answers: dict[str, dict[str, Any]]) -> None:
    answer = answers["RANK_1_ENDS"]
    assert answer["status"] == "ended_early"
    assert answer["message"] == "rank 1: the candidate's process ended with exit status 3 before run() answered"


def test_a_workspace_is_as_large_as_it_is(answers: dict[str, dict[str, Any]]) -> None:
    answer = answers["OVERRUN"]
    assert failed(answer)[0] == "* workspace"
    assert "behind the workspace of rank 0" in answer["message"]


def test_calls_without_a_pause_stay_within_their_workspaces_too(answers: dict[str, dict[str, Any]]) -> None:
    answer = answers["OVERRUN_LATER"]
    assert failed(answer) == ["* workspace"], answer["message"]
    assert answer["message"].startswith("smoke_n64: calls without a pause between them: bytes behind the workspace")


def test_calls_without_a_pause_follow_a_variation_too_and_nobody_reads_what_they_raise(
    answers: dict[str, dict[str, Any]],
) -> None:
    answer = answers["RAISES_LATER"]
    assert answer["status"] == "runtime_error", answer["message"]
    assert answer["message"].startswith("hidden.zeros: calls without a pause between them: rank ")
    assert "ValueError" in answer["message"]
    assert "these are the hidden numbers" not in json.dumps(answer)


def test_ranks_load_side_by_side(answers: dict[str, dict[str, Any]]) -> None:
    answer = answers["SLOW_TO_LOAD 3"]
    assert "as it is meant to" in answer["message"]
    assert answer["seconds"]["correctness"] < 6.0, "three ranks sleep for two seconds each"


def test_a_rank_that_does_not_load_is_named(answers: dict[str, dict[str, Any]]) -> None:
    assert re.match(r"rank [01]: importing solution.py raised ModuleNotFound", answers["DOES_NOT_LOAD"]["message"])


def test_nobody_is_left_over(answers: dict[str, dict[str, Any]]) -> None:
    assert {name: answer["left"] for name, answer in answers.items() if answer["left"]} == {}


@pytest.mark.parametrize("name", ["timed HONEST", "timed HONEST in graphs"])
def test_a_call_of_all_ranks_is_timed(answers: dict[str, dict[str, Any]], name: str) -> None:
    (result,) = answers[name]["results"]
    assert result["status"] == "passed", result["message"]
    measured = result["measurement"]
    assert measured["calls"] > 1
    assert 0 < measured["mean_ms"] <= measured["outside_ms"] * 1.3
    assert measured["audit_ms"] > 0
    assert measured["link_bytes"] is None  # a processor has no links


def test_poison_does_not_tell_what_is_new(answers: dict[str, dict[str, Any]]) -> None:
    answer = answers["timed REMEMBERS_UNTIL_POISONED"]
    assert answer["violations"] == ["timing.audit"], answer
    assert "where it cannot remember" in answer["message"]


def test_a_baseline_is_timed_again_in_a_job_that_did_not_start_it(answers: dict[str, dict[str, Any]]) -> None:
    answer = answers["job HONEST"]
    assert answer.get("status") == "passed", answer
    assert "starting the baseline" not in answer["steps"]
    assert "timing the baseline" in answer["steps"], "A B B A"
    assert answer["drift"] is not None


def test_speedups_are_over_what_was_timed_in_the_same_way(answers: dict[str, dict[str, Any]]) -> None:
    gathering, honest = answers["job BY_GATHERING"], answers["job HONEST"]
    (own,), (of_reference,) = honest["results"], gathering["results"]
    assert own["measurement"]["policy"] == own["baseline"]["policy"] == "graph_rotating"
    assert own["speedup"] == pytest.approx(own["baseline"]["mean_ms"] / own["measurement"]["mean_ms"])
    assert of_reference["measurement"]["policy"] == "events_batch"
    assert of_reference["speedup"] is None
    assert "large was timed by events_batch, its baseline by graph_rotating: no speedup" in gathering["notes"]


def test_clocks_do_not_accuse_a_reference(answers: dict[str, dict[str, Any]]) -> None:
    answer = answers["job BY_GATHERING"]
    assert answer["status"] == "passed", answer
    assert any(note.startswith("large: the claimed time is") for note in answer["notes"])
    assert "auditing large" not in answer["steps"]


def test_a_race_is_not_told_as_a_stream_of_its_own(answers: dict[str, dict[str, Any]]) -> None:
    answer = answers["job BY_TURNS"]
    assert answer["status"] == "incorrect", answer
    assert failed(answer) == ["y exact"]
