"""Guidance is cut by level: a pure function, and nothing of a withheld level survives it."""

from __future__ import annotations

import copy
import itertools
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from d2k_agent.catalog import LEVELS, parse_levels, slice_guidance
from d2k_agent.errors import UsageError
from tests.catalog.tasks_on_disk import CHAIN, GUIDANCE

ANY_LEVELS = [levels for count in range(4) for levels in itertools.combinations(LEVELS, count)]
L1 = "level_1_high_level_algorithmic_insights"
L2 = "level_2_dataflow_design"
L3 = "level_3_low_level_optimization_tricks"


def marked(counts: tuple[int, int, int, int]) -> dict[str, Any]:
    """Guidance whose every text carries the levels it needs, as <L1>, <L1,L2> and so on."""
    insights, stages, tricks, chains = counts
    names = [f"insight {i} <L1>" for i in range(insights)]
    ids = [f"stage_{i}_<L2>" for i in range(stages)]
    return {
        "cross_level_rationale": [
            {
                "bottleneck": f"{i} <L1>",
                L1: f"{i} <L1>",
                L2: f"{i} <L2>",
                L3: f"{i} <L3>",
                "cost_reduction": f"{i} <L1><L2>",
                "conditions": f"{i} <L1><L2><L3>",
            }
            for i in range(chains)
        ],
        L1: [{"name": name, "algorithmic_change": "<L1>"} for name in names],
        L2: {"overview": "<L2>", "stages": [{"stage_id": name, "operation": "<L2>"} for name in ids]},
        L3: [{"name": f"trick {i} <L3>", "supports": names + ids, "strategy": "<L3>"} for i in range(tricks)],
    }


shapes = st.tuples(*[st.integers(0, 4)] * 4)


@given(shapes, st.sampled_from(ANY_LEVELS))
@settings(max_examples=60)
def test_no_text_of_a_withheld_level_is_left(counts: tuple[int, int, int, int], levels: tuple[str, ...]) -> None:
    text = json.dumps(slice_guidance(marked(counts), levels))
    for level in set(LEVELS) - set(levels):
        assert f"<{level}>" not in text


@given(shapes, st.sampled_from(ANY_LEVELS))
@settings(max_examples=60)
def test_every_text_of_the_given_levels_is_kept(counts: tuple[int, int, int, int], levels: tuple[str, ...]) -> None:
    guidance = marked(counts)
    sliced = slice_guidance(guidance, levels) or {}
    for key, level in ((L1, "L1"), (L2, "L2")):
        assert sliced.get(key) == (guidance[key] if level in levels else None)
    if "L3" in levels:
        assert [trick["strategy"] for trick in sliced[L3]] == ["<L3>"] * counts[2]


@given(shapes, st.sampled_from(ANY_LEVELS), st.sampled_from(ANY_LEVELS))
@settings(max_examples=60)
def test_cutting_twice_is_cutting_to_what_both_allow(
    counts: tuple[int, int, int, int], first: tuple[str, ...], second: tuple[str, ...]
) -> None:
    guidance = marked(counts)
    before = copy.deepcopy(guidance)
    once = slice_guidance(guidance, first)
    both = [level for level in first if level in second]
    if once is not None and both:
        assert slice_guidance(once, second) == slice_guidance(guidance, both)
    assert guidance == before


def test_all_levels_give_the_whole_and_none_gives_nothing() -> None:
    assert slice_guidance(GUIDANCE, LEVELS) == GUIDANCE
    assert list(slice_guidance(GUIDANCE, LEVELS) or {}) == list(GUIDANCE)
    assert slice_guidance(GUIDANCE, ()) is None


@pytest.mark.parametrize(
    ("levels", "kept"),
    [
        (("L1",), {"bottleneck", L1}),
        (("L1", "L2"), {"bottleneck", L1, L2, "cost_reduction"}),
        (LEVELS, set(CHAIN)),
        (("L2",), {L2}),
        (("L3",), {L3}),
    ],
)
def test_a_chain_shows_the_keys_of_its_levels(levels: tuple[str, ...], kept: set[str]) -> None:
    sliced = slice_guidance(GUIDANCE, levels) or {}
    assert set(sliced["cross_level_rationale"][0]) == kept


def test_a_trick_names_only_what_its_reader_was_given() -> None:
    alone = slice_guidance(GUIDANCE, ("L3",)) or {}
    with_stages = slice_guidance(GUIDANCE, ("L2", "L3")) or {}
    assert alone[L3][0]["supports"] == []
    assert with_stages[L3][0]["supports"] == ["doubling_stage"]


def test_what_nobody_assigned_to_a_level_is_withheld() -> None:
    extended = {**GUIDANCE, "author_notes": "the answer", "cross_level_rationale": [{**CHAIN, "hint": "the answer"}]}
    assert "the answer" not in json.dumps(slice_guidance(extended, ("L1", "L2")))


@pytest.mark.parametrize(
    ("text", "levels"),
    [
        ("", ()),
        ("none", ()),
        ("L1", ("L1",)),
        ("L1,L2", ("L1", "L2")),
        ("l2, l1", ("L1", "L2")),
        ("L1,L1", ("L1",)),
        (" L1 ,L2,L3,", LEVELS),
    ],
)
def test_levels_are_read_from_text(text: str, levels: tuple[str, ...]) -> None:
    assert parse_levels(text) == levels


@pytest.mark.parametrize("text", ["L4", "L1;L2", "1", "L1,none", "all"])
def test_an_unknown_level_is_refused_with_the_choices(text: str) -> None:
    with pytest.raises(UsageError, match="give none, L1, L1,L2 or L1,L2,L3"):
        parse_levels(text)


@pytest.mark.parametrize(("text", "missing"), [("L2", "L1"), ("L1,L3", "L2"), ("L3", "L1"), ("L2,L3", "L1")])
def test_levels_that_are_no_prefix_need_an_option(text: str, missing: str) -> None:
    with pytest.raises(UsageError, match=f"add {missing}, or pass --any-levels"):
        parse_levels(text)
    assert parse_levels(text, any_levels=True) == tuple(text.split(","))
