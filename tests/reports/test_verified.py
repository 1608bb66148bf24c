"""An earlier verdict against one of now: what makes it hold, what does not, and how that is told."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from d2k_agent.contract import Check, Verdict
from d2k_agent.contract.wire import WireError
from d2k_agent.reports.verdict_data import verdict_data, verdict_of
from d2k_agent.reports.verified import compare
from d2k_agent.reports.verified_text import verified_data, verified_text
from tests.reports.explained import confirmed, forbidden, incorrect, noisy, refused, untimed
from tests.reports.measured import timed, void

KINDS = (confirmed, untimed, forbidden, incorrect, noisy, refused, timed, void)


def faster(verdict: Verdict, times: float) -> Verdict:
    """The same verdict with latencies that many times shorter, its speedups that much higher."""

    def moved(value: float | None, factor: float) -> float | None:
        return None if value is None else value * factor

    workloads = tuple(
        item
        if item.measurement is None
        else replace(
            item,
            mean_ms=moved(item.mean_ms, 1 / times),
            speedup=moved(item.speedup, times),
            measurement=replace(item.measurement, mean_ms=item.measurement.mean_ms / times),
        )
        for item in verdict.workloads
    )
    return replace(verdict, workloads=workloads, geomean_speedup=moved(verdict.geomean_speedup, times))


def elsewhere(verdict: Verdict, **changes: Any) -> Verdict:
    return replace(verdict, environment=replace(verdict.environment, **changes))


def deciding(before: Verdict, now: Verdict) -> list[str]:
    return [item.what for item in compare(before, now).differences if item.decides]


@pytest.mark.parametrize("kind", KINDS)
def test_every_verdict_comes_back_from_its_json_and_holds_beside_itself(kind: Any) -> None:
    printed = json.loads(json.dumps(verdict_data(kind()), allow_nan=False))
    assert verdict_of(printed) == kind()
    comparison = compare(verdict_of(printed), replace(kind(), seed_commitment="d1" * 32, seconds={"static": 1.0}))
    assert comparison.verified and comparison.differences == ()


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ([], "an object was expected, not list"),
        ({}, "field 'status' is missing"),
        ({"eligible": True}, "field 'status' is missing"),
        (verdict_data(untimed()) | {"speed": 9}, "unknown field 'speed'"),
        (verdict_data(untimed()) | {"eligible": True}, "contradicts"),
        (verdict_data(untimed()) | {"status": "good"}, "good"),
        (verdict_data(untimed()) | {"status": "rule_violation"}, "needs at least one violation"),
    ],
)
def test_what_is_no_verdict_is_refused_by_name(data: Any, words: str) -> None:
    with pytest.raises(WireError, match=words):
        verdict_of(data)


def test_two_sources_are_not_compared() -> None:
    with pytest.raises(ValueError, match="two sources"):
        compare(timed(), replace(timed(), candidate_sha256="b" * 64))


def test_latencies_hold_within_the_policys_noise_and_not_beyond_it_in_either_direction() -> None:
    assert compare(timed(), faster(timed(), 1.02)).verified
    for times in (1.05, 0.95):
        assert deciding(timed(), faster(timed(), times)) == [
            "latency on small",
            "speedup on small",
            "latency on large",
            "speedup on large",
            "geomean speedup",
        ]


@pytest.mark.parametrize("changes", [{"torch": "2.12"}, {"driver": "999"}, {"device_name": "NVIDIA B200"}])
def test_on_another_machine_latencies_stand_side_by_side_and_decide_nothing(changes: dict[str, str]) -> None:
    comparison = compare(timed(), elsewhere(faster(timed(), 3.0), **changes))
    assert comparison.verified and not comparison.comparable
    assert [item.decides for item in comparison.differences] == [False]
    assert all(item.within is None and item.ratio == pytest.approx(1 / 3) for item in comparison.latencies)
    text = verified_text(comparison, "old.json")
    assert "latencies were not compared, since other things differ (" in text and text.count("not compared") == 3
    data = verified_data(comparison)
    assert (data["verified"], data["latencies_compared"]) == (True, False)


def test_another_card_of_the_same_kind_is_another_machine() -> None:
    one = elsewhere(timed(), details={"uuid": "GPU-1"})
    assert not compare(one, elsewhere(timed(), details={"uuid": "GPU-2"})).comparable


@pytest.mark.parametrize(
    ("one", "other", "what"),
    [
        ({"ranks": 2}, {"ranks": 4}, ("ranks", "2", "4")),
        ({"ranks": 2}, {}, ("ranks", "2", "unknown")),
        ({"uuid": "a", "gpus": ["a", "b"]}, {"uuid": "a", "gpus": ["a", "c"]}, ("GPU", "a, b", "a, c")),
    ],
)
def test_other_ranks_or_other_gpus_of_them_are_another_machine(
    one: dict[str, object], other: dict[str, object], what: tuple[str, str, str]
) -> None:
    comparison = compare(elsewhere(timed(), details=one), elsewhere(timed(), details=other))
    assert not comparison.comparable
    assert [(item.what, item.before, item.now) for item in comparison.differences] == [what]


@pytest.mark.parametrize("gpus", [3, None, [], {}])
def test_a_file_may_say_anything_of_gpus(gpus: object) -> None:
    odd = elsewhere(timed(), details={"uuid": "a", "gpus": gpus})
    assert compare(odd, elsewhere(timed(), details={"uuid": "a"})).comparable


def test_another_task_decides_and_another_evaluator_does_not() -> None:
    assert deciding(untimed(), elsewhere(untimed(), task_digest="x" * 64)) == ["task digest"]
    assert deciding(untimed(), elsewhere(untimed(), evaluator_digest="x" * 64)) == []


def test_another_baseline_leaves_latencies_and_speedups_uncompared() -> None:
    comparison = compare(timed(), replace(faster(timed(), 2.0), baseline_sha256="f" * 64))
    assert comparison.verified and not comparison.comparable
    assert [item.what for item in comparison.differences] == ["baseline"]


def test_a_speedup_that_was_claimed_has_to_be_there_again() -> None:
    assert deciding(timed(), void()) == ["speedup on small", "speedup on large", "geomean speedup"]
    assert compare(void(), timed()).verified, "what was not claimed cannot be missing"


@pytest.mark.parametrize(
    ("before", "now"), [(untimed(), incorrect()), (timed(), noisy()), (timed(), untimed()), (untimed(), forbidden())]
)
def test_another_status_decides(before: Verdict, now: Verdict) -> None:
    comparison = compare(before, now)
    assert "status" in deciding(before, now)
    text = verified_text(comparison, "old.json")
    assert text.startswith("old.json does not hold: judged again under a fresh seed, it differs in ")
    assert f"The verdict now\nStatus: {now.status}" in text


def test_a_failure_of_another_kind_decides() -> None:
    other = replace(forbidden(), violations=(replace(forbidden().violations[0], line=13),))
    assert deciding(forbidden(), other) == ["failed checks"]


def test_checks_that_were_not_made_again_decide_and_more_of_them_do_not() -> None:
    fewer = replace(untimed(), workloads=untimed().workloads[:-1])
    assert deciding(untimed(), fewer) == ["checks on hidden.scaled"]
    assert compare(fewer, untimed()).verified
    assert [item.what for item in compare(fewer, untimed()).differences] == ["checks on hidden.scaled"]
    assert "and the checks that it lists are the same" in verified_text(compare(fewer, untimed()), "old.json")


def test_values_of_checks_may_differ_since_inputs_do() -> None:
    *others, last = untimed().workloads
    checks = (*last.checks[:2], Check("result", "rel_norm", 0.0071, 0.012, True), last.checks[3])
    assert compare(untimed(), replace(untimed(), workloads=(*others, replace(last, checks=checks)))).differences == ()


def test_limits_that_are_not_the_tasks_decide() -> None:
    *others, last = untimed().workloads
    wide = tuple(check if check.limit is None else replace(check, limit=1e9) for check in last.checks)
    edited = replace(untimed(), workloads=(*others, replace(last, checks=wide)))
    assert deciding(edited, untimed()) and all("limits of " in what for what in deciding(edited, untimed()))
    assert "hidden.scaled" in deciding(edited, untimed())[0]


def test_variations_that_share_a_label_are_each_compared() -> None:
    twice = replace(untimed(), workloads=(*untimed().workloads, untimed().workloads[-1]))
    assert deciding(twice, untimed()) == ["checks on hidden.scaled #2"]


def test_the_text_says_in_one_sentence_what_holds_and_under_which_seeds() -> None:
    now = replace(faster(confirmed(), 1.01), seed_commitment="d1" * 32)
    text = verified_text(compare(confirmed(), now), "old.json")
    first, second, *_ = text.splitlines()
    assert first == (
        "old.json holds: judged again under a fresh seed, status (passed) and checks are the same; latencies and "
        "speedups are within 3 %."
    )
    assert second == "source aaaaaaaaaaaa; commitments of the two seeds c0c0c0c0c0c0 and d1d1d1d1d1d1"
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert "small 12.35 ms 12.22 ms 0.9901 3 %: yes 2 2.02" in lines


def test_without_a_speedup_none_is_said_to_hold() -> None:
    bare = tuple(replace(item, speedup=None, baseline=None) for item in timed().workloads)
    alone = replace(timed(), workloads=bare, geomean_speedup=None, drift=None, baseline_sha256=None)
    assert "; latencies are within 3 %." in verified_text(compare(alone, alone), "old.json")


def test_two_untimed_verdicts_verify_each_other_without_a_table_of_times() -> None:
    comparison = compare(untimed(), untimed())
    assert "neither verdict has a latency" in verified_text(comparison, "old.json")
    assert " ms" not in verified_text(comparison, "old.json")
    data = verified_data(comparison)
    assert (data["verified"], data["latencies_compared"], data["differences"], data["latencies"]) == (
        True,
        None,
        [],
        [],
    )
    assert verdict_of(data["verdict"]) == untimed()


def test_differences_are_told_as_data_whole_and_as_text_short() -> None:
    changed = elsewhere(untimed(), evaluator_digest="f" * 64, machine="m" * 200)
    comparison = compare(untimed(), changed)
    told = json.loads(json.dumps(verified_data(comparison)))["differences"]
    assert told[0] == {"what": "evaluator digest", "before": "e" * 64, "now": "f" * 64, "decides": False}
    text = verified_text(comparison, "old.json")
    assert "f" * 12 in text and "f" * 13 not in text and "m" * 100 not in text
