"""What runs cost by bucket: bars of one scale, and the table of the same numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from xml.etree.ElementTree import Element

from d2k_agent.models import PRICED
from d2k_agent.reports.curve_report import RunReport
from d2k_agent.reports.page.elements import element, folded, table_of
from d2k_agent.reports.tables import UNKNOWN, at_least, count, dollars

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
    header = _header(runs)
    rows = [row for run in runs for row in _rows(run)]
    title = "Tokens and dollars by bucket"
    told = table_of(title, header, rows, header[2:])
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
            amount = at_least(_amount(what, value), _is_lower(what, run))
            told = element("title", f"{run.name}: {_name(bucket)} {amount}")
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
    known = ", as far as it is known" if any(_is_lower(what, run) for run in runs) else ""
    return element("figure", element("figcaption", f"{what} by bucket{known}"), picture)


def _header(runs: Sequence[RunReport]) -> tuple[str, ...]:
    """Of a sum with a gap nobody knows the shares; those of what is known are told as such."""
    tokens, usd = ("known " * any(_is_lower(what, run) for run in runs) + what for what in ("tokens", "US$"))
    return "run", "bucket", "tokens", f"share of {tokens}", "US$", f"share of {usd}"


def _rows(run: RunReport) -> Iterator[tuple[str, ...]]:
    totals = run.cost.totals
    all_usd, all_tokens = sum(_usd(run).values()), sum(_tokens(run).values())
    name = run.name
    for bucket in PRICED:
        tokens: int | None = getattr(totals.usage, bucket)
        if bucket == "unsplit_input" and tokens is None:
            continue
        usd = run.cost.usd[bucket]
        yield (
            name,
            _name(bucket),
            at_least(count(tokens), totals.lower_bound),
            _share(tokens, all_tokens),
            at_least(dollars(usd), run.cost.is_lower(bucket)),
            _share(usd, all_usd),
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


def _share(part: float | Decimal | None, whole: float) -> str:
    if part is None:
        return UNKNOWN
    return f"{100 * float(part) / whole:.1f} %" if whole else "-"


def _is_lower(what: str, run: RunReport) -> bool:
    return run.cost.lower_bound if what == "US$" else run.cost.totals.lower_bound


def _amount(what: str, value: float) -> str:
    return dollars(Decimal(value)) if what == "US$" else count(round(value))


def _name(bucket: str) -> str:
    return bucket.replace("_", " ")
