"""A run's replies at some prices: tokens and dollars by bucket. What has no known price is counted, never 0."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

from d2k_agent.models import PRICED, PriceRow, costs, missing_rates
from d2k_agent.records.events import Event, ModelReplied
from d2k_agent.records.totals import Totals, sum_usd, total


@dataclass(frozen=True)
class Cost:
    """What a run cost. `usd` is by each of PRICED, in exact US$; None: nothing is known of it, or it cannot be split.

    `totals` are the tokens, and what was recorded of the cost. `unpriced_replies` counts replies of which at least a
    part has no known price. `partial` are those of PRICED of which such a part exists, `missing_rates` the names of
    Rates that the prices lack and that replies needed.
    """

    usd: dict[str, Decimal | None]
    total_usd: Decimal | None
    totals: Totals
    unpriced_replies: int
    partial: frozenset[str] = frozenset()
    missing_rates: tuple[str, ...] = ()

    @property
    def lower_bound(self) -> bool:
        """True when the truth may be more: replies without a price, or requests that were billed without an answer."""
        return self.unpriced_replies + self.totals.lost_attempts > 0

    def is_lower(self, bucket: str) -> bool:
        """True when the truth of one of PRICED may be more."""
        return bucket in self.partial or self.totals.lost_attempts > 0


def cost_at(events: Iterable[Event], row: PriceRow | None) -> Cost:
    """What the replies in `events` cost at the prices of `row`; all unknown where that is None."""
    events = list(events)
    replies = [event for event in events if isinstance(event, ModelReplied)]
    return _cost(events, [{} if row is None else costs(row, reply.usage) for reply in replies], row)


def recorded_cost(events: Iterable[Event], row: PriceRow | None) -> Cost:
    """What was recorded when the replies came, at the prices of `row`, which were recorded with the run.

    A reply that the row prices whole, and that has no recorded price, has none here: the row does not hold for it.
    Without a row the sum alone is known.
    """
    events = list(events)
    replies = [event for event in events if isinstance(event, ModelReplied)]
    if row is not None:
        return _cost(events, [_recorded(row, reply) for reply in replies], row)
    unpriced = sum(reply.cost_usd is None for reply in replies)
    return Cost(dict.fromkeys(PRICED), sum_usd(reply.cost_usd for reply in replies), total(events), unpriced)


def _recorded(row: PriceRow, reply: ModelReplied) -> dict[str, Decimal | None]:
    parts = costs(row, reply.usage)
    return {} if reply.cost_usd is None and None not in parts.values() else parts


def _cost(events: list[Event], parts: list[dict[str, Decimal | None]], row: PriceRow | None) -> Cost:
    """The sums of what each reply cost, by bucket. Where nobody counted a token the sum is unknown, not 0."""
    totals = total(events)
    counted = [name for name in PRICED if getattr(totals.usage, name) is not None]
    priced = {name: [part.get(name) for part in parts if not part or name in part] for name in PRICED}
    partial = frozenset(name for name in PRICED if None in priced[name])
    usd = {name: _sum(priced[name], partial=name in partial) if name in counted else None for name in PRICED}
    usages = [event.usage for event in events if isinstance(event, ModelReplied)]
    lacking = (
        () if row is None else tuple(dict.fromkeys(name for usage in usages for name in missing_rates(row, usage)))
    )
    unpriced = sum(not part or None in part.values() for part in parts)
    return Cost(usd, _sum(usd.values(), partial=unpriced > 0), totals, unpriced, partial, lacking)


def _sum(values: Iterable[Decimal | None], *, partial: bool) -> Decimal | None:
    """The sum of what is known; None where nothing is, or where `partial` says that 0 is no more than a beginning."""
    known = [value for value in values if value is not None]
    found = sum(known, Decimal())
    return None if not known or (partial and not found) else found
