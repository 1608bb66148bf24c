"""What runs cost, as tables and as data: tokens and dollars by bucket, and the prices that the dollars rest on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from decimal import Decimal
from typing import Any

from d2k_agent.contract.wording import counted
from d2k_agent.models import FIELD_OF_RATE, PRICED, PriceRow, Rates
from d2k_agent.records import CacheRecord, Cost, Totals
from d2k_agent.reports.cache_text import cache_data, cache_lines
from d2k_agent.reports.tables import at_least, count, dollars, table

RECORDED, NEW = "US$ recorded", "US$ new"
TOTAL = "in all"


@dataclass(frozen=True)
class RunCost:
    """One run. `price` is what it recorded of prices, `recorded` what it cost at those; `cache` what was read cached.

    `origin` says what the record was put together from, None for a run as it happened.
    `new` is the cost at `new_price`; both are None where the run is not priced anew.
    """

    run: str
    folder: str
    model: str
    origin: str | None
    price: PriceRow | None
    recorded: Cost
    new_price: PriceRow | None
    new: Cost | None
    cache: CacheRecord

    @property
    def last(self) -> Cost:
        """What stands in the last column: the new cost, the recorded one where there is no other."""
        return self.new or self.recorded


def cost_text(runs: Sequence[RunCost]) -> str:
    """A table of run by bucket with the sum of several runs, what is unknown in it, and the prices."""
    anew = any(run.new is not None for run in runs)
    header = ("run", "bucket", "tokens", RECORDED, *([NEW] if anew else []))
    rows = [row for run in runs for row in _rows(run, anew)]
    if len(runs) > 1:
        rows.append(_sum_row(runs, anew))
    parts = [table(header, rows, header[2:])]
    notes = [note for run in runs for note in _notes(run)]
    if notes:
        parts.append("\n".join(notes))
    prices = list(dict.fromkeys(row for run in runs for row in (run.price, run.new_price) if row is not None))
    if prices:
        parts.append(prices_text(prices))
    return "\n\n".join(parts)


def cost_data(runs: Sequence[RunCost]) -> dict[str, Any]:
    """The same as one JSON object. Dollars are numbers, null where unknown; a lower bound says so beside them."""
    return {
        "runs": [
            {
                "run": run.run,
                "run_dir": run.folder,
                "model": run.model,
                "origin": run.origin,
                "replies": run.recorded.totals.replies,
                "unreported_replies": run.recorded.totals.unreported_replies,
                "lost_attempts": run.recorded.totals.lost_attempts,
                "tokens": {name: _tokens(run.recorded.totals, name) for name in PRICED},
                "tokens_lower_bound": run.recorded.totals.lower_bound,
                "recorded": _cost_data(run.recorded, run.price),
                "new": None if run.new is None else _cost_data(run.new, run.new_price),
                "cache": cache_data(run.cache),
            }
            for run in runs
        ],
        "sum": {
            "recorded": _sum_data([run.recorded for run in runs]),
            "new": _sum_data([run.last for run in runs]) if any(run.new is not None for run in runs) else None,
        },
    }


def _cost_data(cost: Cost, price: PriceRow | None) -> dict[str, Any]:
    return {
        "buckets_usd": {name: _number(cost.usd[name]) for name in PRICED},
        "buckets_lower_bound": cost.lower_bound,
        "lower_buckets": [name for name in PRICED if cost.is_lower(name)],
        "cost_usd": _number(cost.total_usd),
        "cost_lower_bound": cost.lower_bound,
        "unpriced_replies": cost.unpriced_replies,
        "prices": None if price is None else _price_data(price),
    }


def _sum_data(costs: Sequence[Cost]) -> dict[str, Any]:
    return {"cost_usd": _number(_sum(costs)), "cost_lower_bound": _is_lower(costs)}


def _price_data(price: PriceRow) -> dict[str, Any]:
    return {
        "model": price.model,
        "source": price.source,
        "date": price.date,
        "usd_per_million": {
            str(above): {name: _number(value) for name, value in asdict(rates).items()}
            for above, rates in _levels(price)
        },
    }


def _rows(run: RunCost, anew: bool) -> Iterator[tuple[str, ...]]:
    totals = run.recorded.totals
    name = run.run
    for bucket in PRICED:
        tokens = _tokens(totals, bucket)
        if bucket == "unsplit_input" and tokens is None:
            continue
        costs = [run.recorded, run.last] if anew else [run.recorded]
        prices = (at_least(dollars(cost.usd[bucket]), cost.is_lower(bucket)) for cost in costs)
        yield (name, bucket.replace("_", " "), at_least(count(tokens), totals.lower_bound), *prices)
        name = ""
    costs = [run.recorded, run.last] if anew else [run.recorded]
    yield ("", TOTAL, at_least(count(_all_tokens(totals)), totals.lower_bound), *(_total([cost]) for cost in costs))


def _sum_row(runs: Sequence[RunCost], anew: bool) -> tuple[str, ...]:
    found = [_all_tokens(run.recorded.totals) for run in runs]
    known = [tokens for tokens in found if tokens is not None]
    lower = any(run.recorded.totals.lower_bound for run in runs)
    columns = [[run.recorded for run in runs], *([[run.last for run in runs]] if anew else [])]
    tokens = at_least(count(sum(known) if known else None), lower)
    return (f"all {len(runs)} runs", TOTAL, tokens, *(_total(costs) for costs in columns))


def _notes(run: RunCost) -> Iterator[str]:
    """What is unknown of a run, a sentence each; first whether it is one."""
    if run.origin is not None:
        yield f"{run.run}: {run.origin}."
    totals = run.recorded.totals
    replies = counted(totals.replies, "reply", "replies")
    if totals.unreported_replies:
        yield f"{run.run}: {totals.unreported_replies} of {replies} came without a complete count of tokens."
    if totals.usage.unsplit_input is not None:
        yield f"{run.run}: of unsplit input nobody said what was cached; it is priced as uncached input."
    if totals.lost_attempts:
        lost = counted(totals.lost_attempts, "request")
        yield f"{run.run}: {lost} may have been billed although no answer came."
    yield from (f"{run.run}: {line}" for line in cache_lines(run.cache))
    if run.price is None:
        yield f"{run.run} recorded no prices{_instead(run)}."
    for column, cost, price in ((RECORDED, run.recorded, run.price), (NEW, run.new, run.new_price)):
        if cost is not None and cost.unpriced_replies:
            unpriced = f"{cost.unpriced_replies} of {replies} could not be priced"
            bound = "" if cost.total_usd is None else ", so the total is a lower bound"
            yield f"{run.run}: {unpriced} ({column}){bound}."
            fields = [] if price is None else [FIELD_OF_RATE[name] for name in cost.missing_rates]
            if price is not None and fields:
                add = f"add it to the row of {run.model} in a file for --prices"
                yield f"{run.run}: {price.source} has no {' and no '.join(fields)} ({column}); {add}."


def _instead(run: RunCost) -> str:
    if run.new_price is not None:
        return f"; {NEW} is at the prices of {run.new_price.source}"
    return ", and no price is known for its model; --prices FILE gives one"


def prices_text(prices: Sequence[PriceRow]) -> str:
    """A table of price rows, a line a level of input tokens."""
    kinds = [item.name for item in fields(Rates)]
    used = [
        kind for kind in kinds if any(getattr(rates, kind) is not None for row in prices for _, rates in _levels(row))
    ]
    header = ("US$ per million tokens", "input above", *(kind.replace("_", " ") for kind in used), "source", "date")
    rows = [
        (row.model, f"{above:,}", *(_rate(getattr(rates, kind)) for kind in used), row.source, row.date or "-")
        for row in prices
        for above, rates in _levels(row)
    ]
    return table(header, rows, header[1:-2])


def _levels(price: PriceRow) -> list[tuple[int, Rates]]:
    """The rates with the number of input tokens above which they hold."""
    return [(0, price.rates), *((tier.above_input, tier.rates) for tier in price.tiers)]


def _tokens(totals: Totals, bucket: str) -> int | None:
    tokens: int | None = getattr(totals.usage, bucket)
    return tokens


def _all_tokens(totals: Totals) -> int | None:
    known = [tokens for name in PRICED if (tokens := _tokens(totals, name)) is not None]
    return sum(known) if known else None


def _sum(costs: Sequence[Cost]) -> Decimal | None:
    known = [cost.total_usd for cost in costs if cost.total_usd is not None]
    return sum(known, Decimal()) if known else None


def _is_lower(costs: Sequence[Cost]) -> bool:
    return any(cost.lower_bound for cost in costs)


def _total(costs: Sequence[Cost]) -> str:
    return at_least(dollars(_sum(costs)), _is_lower(costs))


def _rate(value: Decimal | None) -> str:
    return "-" if value is None else f"{value:f}"


def _number(value: Decimal | None) -> float | None:
    return None if value is None else float(value)
