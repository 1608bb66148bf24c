"""A run's replies at some prices: tokens and dollars by bucket. What has no known price is counted, never 0."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

from d2k_agent.models import PRICED, PriceRow, costs
from d2k_agent.records.events import Event, ModelReplied
from d2k_agent.records.totals import Totals, sum_usd, total


@dataclass(frozen=True)
class Cost:
    """What a run cost. `usd` is by each of PRICED, in exact US$; None: unknown for every reply, or not to be split.

    `totals` are the tokens, and what was recorded of the cost. `unpriced_replies` counts replies of which at least a
    part has no known price.
    """

    usd: dict[str, Decimal | None]
    total_usd: Decimal | None
    totals: Totals
    unpriced_replies: int

    @property
    def lower_bound(self) -> bool:
        """True when the truth may be more: replies without a price, or requests that were billed without an answer."""
        return self.unpriced_replies + self.totals.lost_attempts > 0


def cost_at(events: Iterable[Event], row: PriceRow | None) -> Cost:
    """What the replies in `events` cost at the prices of `row`; all unknown where that is None."""
    events = list(events)
    replies = [event for event in events if isinstance(event, ModelReplied)]
    return _cost(events, [{} if row is None else costs(row, reply.usage) for reply in replies])


def recorded_cost(events: Iterable[Event], row: PriceRow | None) -> Cost:
    """What was recorded when the replies came, at the prices of `row`, which were recorded with the run.

    A reply without a recorded price has none here: it was one that the row does not hold for. Without a row the sum
    alone is known.
    """
    events = list(events)
    replies = [event for event in events if isinstance(event, ModelReplied)]
    if row is not None:
        return _cost(events, [costs(row, reply.usage) if reply.cost_usd is not None else {} for reply in replies])
    unpriced = sum(reply.cost_usd is None for reply in replies)
    return Cost(dict.fromkeys(PRICED), sum_usd(reply.cost_usd for reply in replies), total(events), unpriced)


def _cost(events: list[Event], parts: list[dict[str, Decimal | None]]) -> Cost:
    """The sums of what each reply cost, by bucket. Where nobody counted a token the sum is unknown, not 0."""
    totals = total(events)
    counted = [name for name in PRICED if getattr(totals.usage, name) is not None]
    usd = {name: _sum(part.get(name) for part in parts) if name in counted else None for name in PRICED}
    unpriced = sum(not part or None in part.values() for part in parts)
    return Cost(usd, _sum(usd.values()), totals, unpriced)


def _sum(values: Iterable[Decimal | None]) -> Decimal | None:
    known = [value for value in values if value is not None]
    return sum(known, Decimal()) if known else None
