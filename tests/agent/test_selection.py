"""Which submission stands for a run: a pure function."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from d2k_agent.agent import select
from d2k_agent.contract import Verdict, VerdictStatus
from d2k_agent.contract.modelled import ModelledLatency, ModelledWorkload
from d2k_agent.records import Submission, cut
from tests.agent.scene import HERE, WORKLOADS, passed


def submission(turn: int, verdict: Verdict) -> Submission:
    parts = cut(verdict)
    return Submission(turn, f"call_{turn}", verdict.candidate_sha256, parts.verdict, parts.times)


def fast(turn: int, speedup: float, workloads: tuple[str, ...] = WORKLOADS) -> Submission:
    return submission(turn, passed(f"{turn:064d}", speedup, workloads))


def untimed(turn: int) -> Submission:
    return submission(turn, Verdict(VerdictStatus.UNTIMED, f"{turn:064d}", "correct", HERE))


def modelled(turn: int, *ms: float | None, target: str = "h200") -> Submission:
    workloads = [ModelledWorkload(f"w{at}", value, why_not=why_not(value)) for at, value in enumerate(ms)]
    return replace(untimed(turn), modelled=ModelledLatency(target, tuple(workloads)))


def why_not(ms: float | None) -> str | None:
    return "its grid depends on contents" if ms is None else None


def wrong(turn: int) -> Submission:
    return submission(turn, Verdict(VerdictStatus.INCORRECT, f"{turn:064d}", "wrong", HERE))


@given(st.lists(st.tuples(st.integers(1, 30), st.sampled_from([0.5, 1.0, 2.0, 3.0]))), st.randoms())
def test_highest_speedup_then_earliest_turn_in_any_order(drawn: list[tuple[int, float]], order: object) -> None:
    items = [fast(turn, speedup) for turn, speedup in drawn]
    order.shuffle(items)  # type: ignore[attr-defined]

    chosen = select(items, WORKLOADS, turn_limit=20).selection

    within = [(-speedup, turn) for turn, speedup in drawn if turn <= 20]
    assert (chosen is None) == (not within)
    if chosen is not None:
        assert (-(chosen.geomean_speedup or 0), chosen.turn) == min(within)


def test_a_candidate_measured_on_some_workloads_only_is_not_eligible() -> None:
    made = select([fast(1, 9.0, ("small",)), fast(2, 1.1)], WORKLOADS, 350)

    assert made.selection is not None and made.selection.turn == 2


def test_a_slow_eligible_candidate_stands_before_any_provisional_one() -> None:
    made = select([fast(1, 0.2), untimed(2)], WORKLOADS, 350)

    assert made.selection is not None and made.provisional is None


def test_the_provisional_candidate_is_the_last_correct_one_and_has_no_speedup() -> None:
    made = select([untimed(1), untimed(5), wrong(6), untimed(400)], WORKLOADS, 350)

    assert made.selection is None
    assert made.provisional is not None
    assert (made.provisional.turn, made.provisional.geomean_speedup) == (5, None)


def test_where_nothing_was_measured_the_lowest_modelled_latency_ranks() -> None:
    made = select([modelled(1, 8.0, 2.0), modelled(3, 1.0, 9.0), modelled(5, 4.0, 5.0)], WORKLOADS, 350)

    assert made.selection is None and made.provisional is not None
    assert (made.provisional.turn, made.provisional.modelled_ms) == (3, pytest.approx(3.0))
    assert "nothing was measured; modelled for h200" in made.why and "of 3 correct candidates" in made.why


def test_of_what_the_model_cannot_tell_apart_the_last_is_named() -> None:
    made = select([modelled(1, 4.0), modelled(3, 4.001), modelled(4, 5.0)], WORKLOADS, 350)

    assert made.provisional is not None and made.provisional.turn == 3


@pytest.mark.parametrize("other", [untimed(2), modelled(2, 1.0, None), modelled(2, 1.0, target="b200")])
def test_a_model_ranks_all_correct_candidates_or_none(other: Submission) -> None:
    made = select([modelled(1, 4.0), other, modelled(5, 8.0)], WORKLOADS, 350)

    assert made.provisional is not None and made.provisional.turn == 5
    assert "without a rank" in made.why


def test_a_modelled_latency_never_stands_beside_a_measured_one() -> None:
    made = select([fast(1, 0.2), modelled(2, 0.001)], WORKLOADS, 350)

    assert made.selection is not None and (made.selection.turn, made.selection.modelled_ms) == (1, None)


def test_a_refused_candidate_is_passed_over() -> None:
    made = select([fast(1, 9.0), fast(2, 3.0)], WORKLOADS, 350, refused={f"{1:064d}"})

    assert made.selection is not None and made.selection.turn == 2


def test_why_nothing_was_chosen_is_said() -> None:
    assert "of 2 submissions none was accepted" in select([wrong(1), wrong(2)], WORKLOADS, 350).why
    assert "nothing was handed in" in select([], WORKLOADS, 350).why
