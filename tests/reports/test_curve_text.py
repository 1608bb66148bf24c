"""Curves in words: what stands in the table and the object, what is kept apart, and what is said to be unknown."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from d2k_agent.catalog import samples_dir
from d2k_agent.contract import VerdictStatus
from d2k_agent.models import Usage
from d2k_agent.records import SelectionConfirmed, StopReason, Trace, read_trace
from d2k_agent.reports.curve_data import curve_data
from d2k_agent.reports.curve_report import RunReport, groups
from d2k_agent.reports.curve_text import curve_text
from tests.reports.curved import GPU_SECONDS, a_curved_run, a_turn, on_a_cpu, record, sha_of, turns_of
from tests.reports.events import stamped
from tests.reports.measured import H200
from tests.reports.reported import reported


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.partition("\n\n")[0].splitlines()]


def told(*runs: RunReport, budgets: tuple[int, ...] = ()) -> str:
    return curve_text(runs, budgets)


def on(trace: Trace, **environment: str) -> Trace:
    """The run as judged under other circumstances."""
    other = replace(H200, **environment)
    events = turns_of([2.0], on=other)
    return replace(trace, events=tuple(stamped(*events)))


def test_each_turn_that_moved_the_score_is_a_row_and_the_end_is_one() -> None:
    shown = rows(told(reported(a_curved_run(None, 1.25, 0.9, 2.5))))
    assert shown[0][:4] == ["run", "turn", "what", "score"]
    assert shown[1] == "r 2 first eligible 1.25 200 4,000 60,000 800 0.0760 20.0 s".split()
    assert shown[2] == "4 faster 2.5 400 8,000 120,000 1,600 0.1520 1 min 00 s".split()
    assert shown[3] == "4 end: finished_by_model 2.5 400 8,000 120,000 1,600 0.1520 1 min 00 s".split()
    assert len(shown) == 5 and shown[4][0] == "Task"


def test_a_budget_is_answered_where_the_run_stood_then() -> None:
    shown = rows(told(reported(a_curved_run(None, 1.25, None, 2.5)), budgets=(1, 3, 9)))
    assert "r 1 budget of 1 turn 0.1 (fallback) 100 2,000 30,000 400 0.0380 0.0 s".split() in shown
    assert "3 budget of 3 turns 1.25 300 6,000 90,000 1,200 0.1140 20.0 s".split() in shown
    assert "4 budget of 9 turns 2.5 400 8,000 120,000 1,600 0.1520 40.0 s".split() in shown


def test_what_a_larger_budget_had_given_is_unknown_where_the_run_was_ended_before() -> None:
    text = told(reported(a_curved_run(2.0, reason=StopReason.TURN_LIMIT)), budgets=(100,))
    assert ["-", "budget", "of", "100", "turns", *["unknown"] * 7] in rows(text)
    assert "r: it was ended after 1 turn, so what 100 would have given is not known." in text


def test_where_the_model_knew_its_budget_answers_about_others_are_no_more_than_a_guess() -> None:
    trace = replace(a_curved_run(2.0), run=record(show_budget=True))
    warning = "r: its model was told what was left of its budgets, so under another one it may have gone otherwise."
    assert warning in told(reported(trace), budgets=(1,))
    assert "told" not in told(reported(trace)) and "told" not in told(reported(a_curved_run(2.0)), budgets=(1,))


def test_where_results_were_shortened_in_view_of_the_turns_answers_about_other_budgets_are_a_guess() -> None:
    report = reported(replace(a_curved_run(2.0, 3.0), run=record(protocol="efficient", turns=2)))
    warning = "its old results were shortened in view of its turns, so under another budget it may have gone otherwise"
    assert f"r: {warning}." in told(report, budgets=(1, 2))
    assert warning in curve_data([report], (1,), {}, None)["runs"][0]["notes"]
    assert warning not in told(report) and warning not in told(report, budgets=(2,))
    assert warning not in told(reported(a_curved_run(2.0)), budgets=(1,))


def test_dollars_by_bucket_say_to_a_script_that_they_are_a_lower_bound() -> None:
    gap = Trace(record(), tuple(stamped(*a_turn(1, 2.0), *a_turn(2, None, Usage.unknown(), None))))
    runs = curve_data([reported(gap), reported(a_curved_run(2.0))], (), {}, None)["runs"]
    assert [run["cost_lower_bound"] for run in runs] == [True, False]


def test_of_several_runs_the_turns_between_are_left_to_the_page() -> None:
    shown = rows(told(reported(a_curved_run(1.0, 2.0), "one"), reported(a_curved_run(1.5, 3.0), "two")))
    assert [row[0] for row in shown[1:-1]] == ["one", "2", "two", "2"]
    assert [row[2] for row in shown[1:-1] if row[1] == "1"] == ["first", "first"]


def test_where_the_numbers_come_from_stands_below_them() -> None:
    text = told(reported(a_curved_run(2.0)))
    assert "judged on NVIDIA H200 (somebodys-host), baseline 0123456789ab; protocol default" in text
    assert "timed by events_batch, torch 2.11, triton 3.6, target h200" in text


@pytest.mark.parametrize(
    ("other", "difference"),
    [
        (on(a_curved_run(2.0), device_name="NVIDIA B200"), "machine"),
        (replace(a_curved_run(2.0), run=record(protocol="paper")), "protocol"),
        (replace(a_curved_run(2.0), run=record().model_copy(update={"isolation": {"kind": "none"}})), "isolation"),
        (replace(a_curved_run(2.0), run=record().model_copy(update={"baseline_sha256": "f" * 64})), "baseline"),
        (replace(a_curved_run(2.0), run=record().model_copy(update={"task_digest": "u"})), "task"),
    ],
)
def test_runs_of_other_circumstances_are_never_mixed(other: Trace, difference: str) -> None:
    runs = [reported(a_curved_run(2.0), "one"), reported(other, "two"), reported(a_curved_run(3.0), "three")]
    assert [[run.name for run in kind] for kind in groups(runs)] == [["one", "three"], ["two"]]
    text = curve_text(runs, ())
    assert f"These are 2 kinds of runs, which differ in {difference}: do not compare their scores." in text
    assert text.count("run    turn") + text.count("run  turn") == 2
    assert [run["comparable"] for run in curve_data(runs, (), {}, None)["runs"]] == [1, 2, 1]


def test_a_run_in_which_nothing_was_judged_has_no_machine() -> None:
    report = reported(a_curved_run(None))
    assert "Task muon t, nothing was judged, baseline 0123456789ab; protocol default" in told(report)
    assert curve_data([report], (), {}, None)["runs"][0]["circumstances"]["machine"] is None


def test_versions_that_differ_within_a_kind_are_told_with_every_value() -> None:
    text = told(reported(a_curved_run(2.0), "one"), reported(on(a_curved_run(2.0), torch="2.13"), "two"))
    assert "torch 2.11 or 2.13" in text


def test_what_is_scripted_says_so() -> None:
    assert "muon: no model wrote it: its replies are a script written by hand." in told(
        reported(read_trace(samples_dir() / "muon"), "muon")
    )
    replayed = replace(a_curved_run(2.0), run=record(model="replay/muon"))
    assert "r: no model was asked: its replies are those of a recorded run." in told(reported(replayed))
    assert "no model" not in told(reported(a_curved_run(2.0)))


def test_what_nobody_counted_is_unknown_and_never_zero() -> None:
    events = [*a_turn(1, 2.0, Usage.unknown(), None), *a_turn(2, None, Usage.unknown(), None)]
    trace = Trace(record().model_copy(update={"price": None}), tuple(stamped(*events)))
    text = told(reported(trace))
    assert ["2", "end:", "interrupted", "2", *["unknown"] * 5, f"{GPU_SECONDS}", "s"] in rows(text)
    assert "r: 2 of 2 replies came without a complete count of tokens." in text
    assert "r: no prices were recorded with it." in text


@pytest.mark.parametrize(
    ("trace", "why"),
    [
        (on_a_cpu(VerdictStatus.UNTIMED), "nothing was measured (CPU), so its score is the fallback of 0.1"),
        (
            a_curved_run(VerdictStatus.INCORRECT),
            "none of 1 submission was eligible, so its score is the fallback of 0.1",
        ),
        (a_curved_run(None), "nothing was handed in, so its score is the fallback of 0.1"),
        (Trace(record(), ()), "is interrupted: what stands here is as it was after 0 turns"),
    ],
)
def test_a_score_that_is_no_measurement_says_why(trace: Trace, why: str) -> None:
    text = told(reported(trace))
    assert f"r: {why}" in text and "0.1 (fallback)" in text


def test_what_several_runs_have_in_common_is_said_once() -> None:
    text = told(*[reported(on_a_cpu(VerdictStatus.UNTIMED), name) for name in ("one", "two")])
    assert text.count("nothing was measured") == 1 and "one, two: nothing was measured (CPU)" in text


def test_a_confirmation_and_a_refusal_are_told() -> None:
    refused = SelectionConfirmed(sha256=sha_of(2), confirmed=False, note="refused when judged again: incorrect")
    held = SelectionConfirmed(sha256=sha_of(1), confirmed=True, note="confirmed at 1.2 times", speedup=1.2)
    trace = Trace(record(), tuple(stamped(*turns_of([1.25, 9.0]), refused, held)))
    report = reported(trace)
    text = told(report)
    assert "r: 1 candidate failed when judged again and is in no score." in text
    assert "r: its selection: confirmed at 1.2 times." in text
    assert curve_data([report], (), {}, None)["runs"][0]["confirmed_speedup"] == 1.2


def test_a_script_reads_every_point_from_one_object() -> None:
    report = reported(a_curved_run(None, 1.25, reason=StopReason.TURN_LIMIT))
    data = json.loads(json.dumps(curve_data([report], (1, 100), {"gone": "no run"}, "page.html")))
    (run,) = data["runs"]
    assert (data["page"], data["problems"]) == ("page.html", {"gone": "no run"})
    assert [(p["turn"], p["score"], p["fallback"]) for p in run["curve"]] == [
        (0, 0.1, True),
        (1, 0.1, True),
        (2, 1.25, False),
    ]
    assert run["budgets"] == {"1": run["curve"][1], "100": None}
    end = run["end"]
    assert end["submission"] == {"turn": 2, "sha256": sha_of(2)} and end["cost_usd"] == 0.076
    assert end["tokens"]["cache_read"] == 60_000 and end["tokens"]["unsplit_input"] is None
    assert not (end["tokens_lower_bound"] or end["cost_lower_bound"] or end["gpu_lower_bound"])
    assert run["cost_usd"]["cache_read"] == 0.03 and run["state"] == "turn_limit"
