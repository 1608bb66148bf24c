"""Curves as one table: a row for every turn that moved a run's score, for each budget asked about, and for the end."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from d2k_agent.contract.wording import counted
from d2k_agent.models import BUCKETS
from d2k_agent.records import Curve, Point, Spent
from d2k_agent.reports.curve_report import Circumstances, RunReport, groups
from d2k_agent.reports.tables import UNKNOWN, at_least, count, dollars, number, seconds, table

HEADER = ("turn", "what", "score", *(name.replace("_", " ") for name in BUCKETS), "US$", "GPU time")
VERSIONS = ("timed by", "driver", "torch", "triton", "target", "evaluator")
METHOD = (
    "Score: the highest geometric-mean speedup over the baseline so far, as measured when it was handed in, of what "
    "passed on every workload; 0.1 until then. GPU time: while the evaluator held the GPU, and calls of profile; "
    "what commands did there is not recorded. Tokens and US$: as recorded with each reply."
)


@dataclass(frozen=True)
class Row:
    """One moment of a run. `point` is None where nobody knows what it would have been."""

    turn: int | None
    what: str
    point: Point | None

    def cells(self) -> tuple[str, ...]:
        """The row in words, in the order of HEADER."""
        if self.point is None:
            return ("-", self.what, *[UNKNOWN] * (len(HEADER) - 2))
        return (count(self.turn), self.what, score_text(self.point), *spent_cells(self.point.spent))


def curve_text(runs: Sequence[RunReport], budgets: Sequence[int]) -> str:
    """The table, where the numbers come from, and what to mind about them.

    Of several runs the turns that made a score better stand on the page alone.
    """
    lines = []
    kinds = groups(runs)
    for kind in kinds:
        rows = [
            (run.name if first else "", *row.cells())
            for run in kind
            for first, row in _firsts(rows_of(run.curve, run.state, budgets, moves=len(runs) == 1))
        ]
        lines += [table(("run", *HEADER), rows, ("turn", *HEADER[2:])), where_text(kind), ""]
    if len(kinds) > 1:
        lines += [apart_text([kind[0].circumstances for kind in kinds]), ""]
    notes = ((run.name, note) for run in runs for note in (*run.notes, *budget_notes(run, budgets)))
    return "\n".join([*lines, *told_once(notes), METHOD])


def told_once(notes: Iterable[tuple[str, str]]) -> list[str]:
    """A line for each note, behind the names of all that it is about."""
    named: dict[str, list[str]] = {}
    for name, note in notes:
        named.setdefault(note, []).append(name)
    return [f"{', '.join(names)}: {note}." for note, names in named.items()]


def rows_of(found: Curve, state: str, budgets: Sequence[int], *, moves: bool = True) -> list[Row]:
    """The turns that moved the score (without `moves` the first of them alone), the budgets, and the end, by turns."""
    rows = [Row(point.turn, "faster" if before.best else "first eligible", point) for before, point in steps(found)]
    rows = rows if moves else rows[:1]
    for budget in budgets:
        point = found.under(budget)
        rows.append(Row(None if point is None else point.turn, f"budget of {counted(budget, 'turn')}", point))
    rows.sort(key=lambda row: len(found.points) if row.turn is None else row.turn)
    return [*rows, Row(found.end.turn, f"end: {state}", found.end)]


def steps(found: Curve) -> Iterator[tuple[Point, Point]]:
    """Each point at which another submission became the best, with the one before."""
    points = [*found.points, found.end]
    for before, point in itertools.pairwise(points):
        if point.best is not before.best:
            yield before, point


def budget_notes(run: RunReport, budgets: Sequence[int]) -> Iterator[str]:
    """What the answers about budgets rest on. A budget that is the run's own is answered exactly in any case."""
    config = run.record.config
    others = any(budget != config.turns for budget in budgets)
    if others and config.show_budget:
        yield "its model was told what was left of its budgets, so under another one it may have gone otherwise"
    if others and config.protocol == "efficient":
        yield "its old results were shortened in view of its turns, so under another budget it may have gone otherwise"
    unknown = [budget for budget in budgets if run.curve.under(budget) is None]
    if unknown:
        turns = counted(run.curve.end.turn, "turn")
        asked = " and ".join(f"{budget:,}" for budget in unknown)
        yield f"it was ended after {turns}, so what {asked} would have given is not known"


def where_text(runs: Sequence[RunReport]) -> str:
    """Where the numbers of runs of a kind come from; versions in which they differ are told with every value."""
    own = runs[0].circumstances
    versions = [f"{name} {value}" for name in VERSIONS if (value := _values(runs, name))]
    judged = "nothing was judged" if own.machine is None else f"judged on {own.machine}"
    return (
        f"Task {own.task}, {judged}, baseline {own.baseline or 'none'}; protocol {own.protocol}, isolation "
        f"{own.isolation}{'; ' * bool(versions)}{', '.join(versions)}."
    )


def _values(runs: Sequence[RunReport], name: str) -> str:
    """What the runs' facts say under a name."""
    return " or ".join(dict.fromkeys(value for run in runs for fact, value in run.facts if fact == name))


def apart_text(kinds: Sequence[Circumstances], so: str = "do not compare their scores") -> str:
    """Why runs stand in several tables, and what to do about it."""
    names = dict.fromkeys(name for kind in kinds[1:] for name in kind.differences(kinds[0]))
    differing = [name.replace("_", " ") for name in names]
    told = " and ".join(filter(None, (", ".join(differing[:-1]), differing[-1])))
    return f"These are {len(kinds)} kinds of runs, which differ in {told}: {so}."


def score_text(point: Point) -> str:
    """The score, said to be the fallback where it is."""
    return number(point.score) if point.best is not None else f"{point.score} (fallback)"


def spent_cells(spent: Spent) -> tuple[str, ...]:
    """Tokens by bucket, dollars and GPU time; a sum with a gap is told as a lower bound."""
    return (
        *(at_least(count(getattr(spent.usage, name)), spent.tokens_lower_bound) for name in BUCKETS),
        at_least(dollars(spent.cost_usd), spent.cost_lower_bound),
        at_least(seconds(spent.gpu_seconds), spent.gpu_lower_bound),
    )


def _firsts(rows: Sequence[Row]) -> Iterator[tuple[bool, Row]]:
    for index, row in enumerate(rows):
        yield index == 0, row
