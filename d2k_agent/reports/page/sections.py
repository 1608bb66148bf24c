"""The parts of a report's page: runs of one kind compared, and each run by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from xml.etree.ElementTree import Element

from d2k_agent.models import BUCKETS
from d2k_agent.records import Point
from d2k_agent.reports.curve_report import HANDED_IN, RunReport
from d2k_agent.reports.curve_text import HEADER, budget_notes, rows_of, score_text, spent_cells, steps, where_text
from d2k_agent.reports.page.chart import Chart, Line, Step, swatch, told_step
from d2k_agent.reports.page.elements import element, folded, table_of
from d2k_agent.reports.page.split import cost_split
from d2k_agent.reports.paths import command
from d2k_agent.reports.progress import HEADER as PROGRESS_HEADER
from d2k_agent.reports.tables import UNKNOWN, at_least, count, number

Reading = Callable[[Point], float | None]
"""What a point lies at on an axis; None where nobody knows."""


def _float(value: object) -> float | None:
    return None if value is None else float(value)  # type: ignore[arg-type]


_TOKENS = "tokens: "
AXES: dict[str, Reading] = {
    "turns": lambda point: float(point.turn),
    "US$": lambda point: _float(point.spent.cost_usd),
    "GPU seconds": lambda point: point.spent.gpu_seconds,
    **{
        f"{_TOKENS}{name.replace('_', ' ')}": lambda point, name=name: _float(getattr(point.spent.usage, name))  # type: ignore[misc]
        for name in BUCKETS
    },
}


_BUDGETS = "Under smaller budgets of turns"
MOST_UNFOLDED = 10
"""Runs whose budgets stand open."""
_CURVE = ("turn", *HEADER[2:])
_LEGEND = (
    "Speedup over the baseline, which is the dashed line at 1, on a logarithmic scale. Dotted: the fallback, before "
    "the first eligible submission."
)


def compared(runs: Sequence[RunReport], numbers: dict[str, int], budgets: Sequence[int], key: str) -> list[Element]:
    """Runs of one kind: where they were judged, the outcomes, the pictures, the cost."""
    return [
        element("p", where_text(runs), class_="where"),
        _outcomes(runs, numbers),
        *_pictures(runs, numbers, budgets, key),
        *_moves(runs, budgets),
        element("h3", "Cost split"),
        *cost_split(runs, numbers),
    ]


def alone(run: RunReport, number_on_page: int, budgets: Sequence[int]) -> Element:
    """One run: what it is, its notes, every turn of its curve, its candidate and its trace."""
    parts = [element("h2", swatch(number_on_page), f" {number_on_page}. {run.name}", id=f"run-{number_on_page}")]
    notes = [element("li", f"{note[0].upper()}{note[1:]}.") for note in (*run.notes, *budget_notes(run, budgets))]
    if notes:
        parts.append(element("ul", *notes))
    parts.append(element("dl", *(part for name, value in run.facts for part in _term(name, value))))
    if run.told is None:
        told = command("report", run.folder)
        parts.append(
            element("p", "Every turn and the trace are left out of a page of so many runs: ", element("code", told))
        )
        return element("section", *parts)
    points = [(str(point.turn), score_text(point), *spent_cells(point.spent)) for point in run.curve.points]
    parts.append(folded("Every turn of the curve", table_of(f"Curve of {run.name}", _CURVE, points, _CURVE)))
    if run.handed_in:
        numeric = (HANDED_IN[0], HANDED_IN[-1])
        parts.append(folded("Submissions", table_of(f"Submissions of {run.name}", HANDED_IN, run.handed_in, numeric)))
    if run.source is not None:
        what = "the selection" if run.finished is None or run.finished.selection else "the provisional candidate"
        parts.append(folded(f"Source of {what}", element("pre", run.source)))
    turns = [folded(told.title, element("pre", told.text), class_="turn") for told in run.told]
    trace = [element("p", PROGRESS_HEADER, class_="progress"), *turns] if turns else [element("p", "No events.")]
    return element("section", *parts, element("h3", "Trace"), *trace)


def _term(name: str, value: str) -> tuple[Element, Element]:
    return element("dt", name), element("dd", value)


def _outcomes(runs: Sequence[RunReport], numbers: dict[str, int]) -> Element:
    header = ("run", "model", "levels", "ended", "score", "confirmed", "turns", "tokens", *HEADER[-2:])
    rows: list[tuple[Element | str, ...]] = []
    for run in runs:
        end, index = run.curve.end, numbers[run.name]
        config = run.record.config
        name = element("span", swatch(index), " ", element("a", f"{index}. {run.name}", href=f"#run-{index}"))
        rows.append(
            (
                name,
                dict(run.facts)["model"],
                ", ".join(config.levels) or "none",
                run.state,
                score_text(end),
                _confirmed(run),
                f"{count(end.turn)} of {count(config.turns)}",
                at_least(count(end.spent.tokens), end.spent.tokens_lower_bound),
                *spent_cells(end.spent)[-2:],
            )
        )
    return table_of("Outcomes", header, rows, header[4:])


def _confirmed(run: RunReport) -> str:
    if run.confirmed is None or run.confirmed.speedup is None:
        return "no"
    return number(run.confirmed.speedup)


def _moves(runs: Sequence[RunReport], budgets: Sequence[int]) -> Iterator[Element]:
    """Budgets and ends in sight, every turn that moved a score folded."""
    header, numeric = ("run", *HEADER), ("turn", *HEADER[2:])
    if budgets:
        rows = [(run.name, *row.cells()) for run in runs for row in rows_of(run.curve, run.state, budgets, moves=False)]
        told = table_of(_BUDGETS, header, rows, numeric)
        yield told if len(runs) <= MOST_UNFOLDED else folded(_BUDGETS, told)
    rows = [(run.name, *row.cells()) for run in runs for row in rows_of(run.curve, run.state, ())]
    title = "Every turn that moved the score"
    yield folded(title, table_of(title, header, rows, numeric))


def _pictures(
    runs: Sequence[RunReport], numbers: dict[str, int], budgets: Sequence[int], key: str
) -> Iterator[Element]:
    """Score against turns, large, and against everything else that somebody counted."""
    small: list[Element] = []
    missing: dict[str, list[str]] = {}
    for index, (axis, reading) in enumerate(AXES.items()):
        drawn = [(run, line) for run in runs if (line := _line(run, numbers[run.name], reading)) is not None]
        known = {line.name for _, line in drawn}
        for name in (run.name for run in runs if run.name not in known):
            missing.setdefault(name, []).append(axis)
        lines = [line for _, line in drawn]
        if axis == "turns":
            yield element("h3", "Score")
            marks = [float(budget) for budget in budgets]
            yield _figure(_LEGEND, Chart(f"{key}-{index}", axis, lines, marks, 1040, 360))
        elif any(line.end > 0 for line in lines):
            bounded = " (at least)" if any(_bounded(run, axis) for run, _ in drawn) else ""
            small.append(_figure("", Chart(f"{key}-{index}", f"{axis}{bounded}", lines)))
    if small:
        yield element("div", *small, class_="pictures")
    alike: dict[str, list[str]] = {}
    for name, axes in missing.items():
        alike.setdefault(_together(axes), []).append(name)
    for axes_told, names in alike.items():
        yield element("p", f"Not drawn against what is {UNKNOWN} of them ({axes_told}): {', '.join(names)}.")


def _together(axes: list[str]) -> str:
    """Their names, the tokens' as one where none of them is known."""
    tokens = [axis for axis in axes if axis.startswith(_TOKENS)]
    return ", ".join(axes if len(tokens) < len(BUCKETS) else [*(axis for axis in axes if axis not in tokens), "tokens"])


def _figure(caption: str, chart: Chart) -> Element:
    """A picture; one with a caption is the large one, and scrolls where the window is too narrow to read it."""
    if not caption:
        return element("figure", chart.drawn())
    drawn = element("div", chart.drawn(), class_="wide large", tabindex=0, role="region", aria_label="Score by turns")
    return element("figure", drawn, element("figcaption", caption))


def _line(run: RunReport, index: int, reading: Reading) -> Line | None:
    """The run over one axis; None where a place on it is not known."""
    moved = [(point, reading(point)) for _, point in steps(run.curve)]
    end = reading(run.curve.end)
    if end is None or any(x is None for _, x in moved):
        return None
    drawn = tuple(Step(x, point.score, told_step(point.turn, point.score)) for point, x in moved if x is not None)
    return Line(index, run.name, drawn, end)


def _bounded(run: RunReport, axis: str) -> bool:
    spent = run.curve.end.spent
    if axis == "US$":
        return spent.cost_lower_bound
    return spent.gpu_lower_bound if axis == "GPU seconds" else spent.tokens_lower_bound
