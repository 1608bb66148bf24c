"""Guidance cut to the levels that an agent is given. Pure functions over JSON data.

What belongs to which level:

    L1  level_1_high_level_algorithmic_insights
    L2  level_2_dataflow_design
    L3  level_3_low_level_optimization_tricks; its `supports` name items of L1 and stages of L2 and lose those withheld

A chain of `cross_level_rationale` tells one story through all levels, so every key of it needs levels to be shown:

    level_N_...      LN
    bottleneck       L1          the cost that the algorithm removes
    cost_reduction   L1, L2      counts what no longer exists
    conditions       L1, L2, L3  orders the steps of all three

A chain that keeps nothing is left out. The result of a cut need not satisfy the schema of whole guidance.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from d2k_agent.errors import UsageError

LEVELS = ("L1", "L2", "L3")
LEVEL_KEYS = {
    "level_1_high_level_algorithmic_insights": "L1",
    "level_2_dataflow_design": "L2",
    "level_3_low_level_optimization_tricks": "L3",
}
RATIONALE = "cross_level_rationale"
RATIONALE_NEEDS: dict[str, frozenset[str]] = {
    **{key: frozenset({level}) for key, level in LEVEL_KEYS.items()},
    "bottleneck": frozenset({"L1"}),
    "cost_reduction": frozenset({"L1", "L2"}),
    "conditions": frozenset(LEVELS),
}


def parse_levels(text: str, any_levels: bool = False) -> tuple[str, ...]:
    """`"L1,L2"` to `("L1", "L2")`; empty text or `none` to `()`. Order and case of the text do not matter.

    Raises UsageError for an unknown level, and for levels that are no prefix of L1, L2, L3 unless `any_levels`.
    """
    names = [part.strip().upper() for part in text.split(",") if part.strip()]
    if names == ["NONE"]:
        return ()
    for name in names:
        if name not in LEVELS:
            raise UsageError(f"there is no level {name!r}: give none, L1, L1,L2 or L1,L2,L3")
    levels = tuple(level for level in LEVELS if level in names)
    if not any_levels and levels != LEVELS[: len(levels)]:
        missing = next(level for level in LEVELS if level not in levels)
        raise UsageError(
            f"levels {','.join(levels)} leave out {missing}, on which the later ones build: "
            f"add {missing}, or pass --any-levels if that is the experiment"
        )
    return levels


def slice_guidance(guidance: dict[str, Any], levels: Collection[str]) -> dict[str, Any] | None:
    """The part of `guidance` that `levels` may show, in the order of the original; None where nothing is given.

    A key that this module does not know is withheld. `guidance` is not changed.
    """
    given = frozenset(levels)
    if not given:
        return None
    sliced: dict[str, Any] = {}
    for key, value in guidance.items():
        if key == RATIONALE:
            chains = [_chain(chain, given) for chain in value]
            sliced[key] = [chain for chain in chains if chain]
        elif key == "level_3_low_level_optimization_tricks" and "L3" in given:
            sliced[key] = [_trick(trick, _withheld_names(guidance, given)) for trick in value]
        elif LEVEL_KEYS.get(key) in given:
            sliced[key] = value
    return sliced


def level_texts(guidance: dict[str, Any], level: str) -> Iterator[str]:
    """Every text of guidance that needs `level` to be shown, references between levels left out."""
    for key, value in guidance.items():
        if LEVEL_KEYS.get(key) == level:
            yield from _texts(value)
    for chain in guidance.get(RATIONALE, []):
        for key, value in chain.items():
            if level in RATIONALE_NEEDS.get(key, frozenset(LEVELS)):
                yield from _texts(value)


def _chain(chain: dict[str, Any], given: frozenset[str]) -> dict[str, Any]:
    return {key: value for key, value in chain.items() if RATIONALE_NEEDS.get(key, frozenset(LEVELS)) <= given}


def _trick(trick: dict[str, Any], withheld: frozenset[str]) -> dict[str, Any]:
    supports = [name for name in trick.get("supports", []) if name not in withheld]
    return {key: supports if key == "supports" else value for key, value in trick.items()}


def _withheld_names(guidance: dict[str, Any], given: frozenset[str]) -> frozenset[str]:
    insights = guidance.get("level_1_high_level_algorithmic_insights", [])
    stages = guidance.get("level_2_dataflow_design", {}).get("stages", [])
    names = set() if "L1" in given else {insight["name"] for insight in insights}
    return frozenset(names if "L2" in given else names | {stage["stage_id"] for stage in stages})


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            if key != "supports":
                yield from _texts(item)
