"""What runs cost by bucket: bars of one scale, and the table of the same numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from xml.etree.ElementTree import Element

from d2k_agent.models import PRICED
from d2k_agent.reports.curve_report import RunReport
from d2k_agent.reports.page.elements import element, folded, table_of
from d2k_agent.reports.tables import UNKNOWN, at_least, count, dollars

HEADER = ("run", "bucket", "tokens", "share of tokens", "US$", "share of US$")
MOST_UNFOLDED = 3
"""Runs whose numbers stand open: those of more are a click away."""
_WIDTH, _LEFT, _BAR, _GAP = 1040, 40, 18, 8


def cost_split(runs: Sequence[RunReport], numbers: dict[str, int]) -> list[Element]:
    """Bars and table for `runs`, each of which has a number on the page; a sentence where nothing is known."""
    if not any(_usd(run) or _tokens(run) for run in runs):
        return [element("p", f"Tokens and dollars are {UNKNOWN}.")]
    content = []
    for what, values in (("US$", _usd), ("tokens", _tokens)):
        if any(values(run) for run in runs):
            content.append(_bars(what, runs, numbers, values))
    legend = element(
        "p",
        *(element("span", element("span", class_=f"box b{index}"), _name(name)) for index, name in _used(runs)),
        class_="legend",
    )
    rows = [row for run in runs for row in _rows(run)]
    title = "Tokens and dollars by bucket"
    told = table_of(title, HEADER, rows, HEADER[2:])
    shown = told if len(runs) <= MOST_UNFOLDED else folded(title, told)
    return [*content, *([legend] if content else []), shown]


def _bars(
    what: str, runs: Sequence[RunReport], numbers: dict[str, int], values: Callable[[RunReport], dict[str, float]]
) -> Element:
    longest = max(sum(values(run).values()) for run in runs)
    height = len(runs) * (_BAR + _GAP) + _GAP
    parts: list[Element] = []
    for row, run in enumerate(runs):
        top, left = _GAP + row * (_BAR + _GAP), float(_LEFT)
        parts.append(element("text", str(numbers[run.name]), x=_LEFT - 8, y=top + 14, text_anchor="end"))
        if not values(run):
            parts.append(element("text", f"{what} unknown", x=_LEFT, y=top + 14))
        for bucket, value in values(run).items():
            width = (_WIDTH - _LEFT - 8) * value / longest
            told = element("title", f"{run.name}: {_name(bucket)} {_amount(what, value)}")
            parts.append(
                element(
                    "rect",
                    told,
                    x=round(left, 1),
                    y=top,
                    width=round(width, 1),
                    height=_BAR,
                    class_=f"b{PRICED.index(bucket)}",
                )
            )
            left += width
    picture = element(
        "svg",
        *parts,
        viewBox=f"0 0 {_WIDTH} {height}",
        role="img",
        aria_label=f"{what} by bucket, a bar a run; the table below has the numbers",
    )
    return element("figure", element("figcaption", f"{what} by bucket"), picture)


def _rows(run: RunReport) -> Iterator[tuple[str, ...]]:
    totals, usd, tokens = run.cost.totals, _usd(run), _tokens(run)
    name = run.name
    for bucket in PRICED:
        counted: int | None = getattr(totals.usage, bucket)
        if bucket == "unsplit_input" and counted is None:
            continue
        yield (
            name,
            _name(bucket),
            at_least(count(counted), totals.lower_bound),
            _share(tokens, bucket),
            dollars(None if counted is None else run.cost.usd[bucket]),
            _share(usd, bucket),
        )
        name = ""
    spent = run.curve.end.spent
    yield (
        name,
        "in all",
        at_least(count(spent.tokens), spent.tokens_lower_bound),
        "",
        at_least(dollars(run.cost.total_usd), run.cost.lower_bound),
        "",
    )


def _used(runs: Sequence[RunReport]) -> list[tuple[int, str]]:
    return [
        (index, name) for index, name in enumerate(PRICED) if any(name in {**_usd(run), **_tokens(run)} for run in runs)
    ]


def _usd(run: RunReport) -> dict[str, float]:
    """The known dollars by bucket; a run without any is left out of a picture, not drawn as nothing."""
    return {name: float(value) for name, value in run.cost.usd.items() if value}


def _tokens(run: RunReport) -> dict[str, float]:
    return {name: float(value) for name in PRICED if (value := getattr(run.cost.totals.usage, name))}


def _share(values: dict[str, float], bucket: str) -> str:
    if not values:
        return UNKNOWN
    return f"{100 * values.get(bucket, 0.0) / sum(values.values()):.1f} %"


def _amount(what: str, value: float) -> str:
    return dollars(Decimal(value)) if what == "US$" else count(round(value))


def _name(bucket: str) -> str:
    return bucket.replace("_", " ")
