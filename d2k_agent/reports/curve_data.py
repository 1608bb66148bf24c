"""Curves as the JSON object that scripts read."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from d2k_agent.models import PRICED
from d2k_agent.records import Point, Spent
from d2k_agent.reports.curve_report import RunReport, groups
from d2k_agent.reports.curve_text import budget_notes
from d2k_agent.reports.headroom import headroom_data


def curve_data(
    runs: Sequence[RunReport], budgets: Sequence[int], problems: Mapping[str, str], page: str | None
) -> dict[str, Any]:
    """The reports as one object.

    Scripts may rely on `page`, `problems` (by run, a sentence each), and in `runs`: `run`, `state`, `model`,
    `comparable` (equal for runs that may be compared), `curve`, `end`, `budgets` and `headroom` (a row a measured
    workload, empty where no floor is known). What is unknown is null; where a
    number is a lower bound, the field of that name beside it says so. `fallback`: the score is no measurement.
    """
    number_of = {id(run): number for number, kind in enumerate(groups(runs), start=1) for run in kind}
    return {
        "page": page,
        "problems": dict(problems),
        "runs": [
            {
                "run": run.name,
                "run_dir": run.folder,
                "state": run.state,
                "model": run.record.config.model,
                "levels": list(run.record.config.levels),
                "turns_allowed": run.record.config.turns,
                "comparable": number_of[id(run)],
                "circumstances": dataclasses.asdict(run.circumstances),
                "facts": dict(run.facts),
                "headroom": headroom_data(run.headroom),
                "notes": [*run.notes, *budget_notes(run, budgets)],
                "confirmed_speedup": None if run.confirmed is None else run.confirmed.speedup,
                "cost_usd": {name: _number(run.cost.usd[name]) for name in PRICED},
                "cost_lower_bound": run.cost.lower_bound,
                "curve": [_point(point) for point in run.curve.points],
                "end": _point(run.curve.end),
                "budgets": {str(budget): _point(run.curve.under(budget)) for budget in budgets},
            }
            for run in runs
        ],
    }


def _point(point: Point | None) -> dict[str, Any] | None:
    if point is None:
        return None
    best = point.best
    return {
        "turn": point.turn,
        "score": point.score,
        "fallback": best is None,
        "submission": None if best is None else {"turn": best.turn, "sha256": best.sha256},
        **_spent(point.spent),
    }


def _spent(spent: Spent) -> dict[str, Any]:
    return {
        "tokens": {name: getattr(spent.usage, name) for name in PRICED},
        "tokens_lower_bound": spent.tokens_lower_bound,
        "cost_usd": _number(spent.cost_usd),
        "cost_lower_bound": spent.cost_lower_bound,
        "gpu_seconds": spent.gpu_seconds,
        "gpu_lower_bound": spent.gpu_lower_bound,
    }


def _number(value: Any) -> float | None:
    return None if value is None else float(value)
