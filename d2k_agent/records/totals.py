"""Tokens and cost of a run. What nobody counted stays unknown, and a sum with a gap says that it is a lower bound."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

from d2k_agent.models import ASIDE, BUCKETS, Usage
from d2k_agent.records.events import Event, ModelCallFailed, ModelCallInterrupted, ModelReplied


@dataclass(frozen=True)
class Totals:
    """Sums over a run's model calls.

    A bucket is None when no call reported it. `lower_bound` is True when a call's usage is unknown, because its
    provider did not report all of it, or because the call was interrupted or had attempts without an answer; `usage`
    is then less than or equal to the truth. `cost_lower_bound` says the same of `cost_usd`. `unreported_replies`
    counts replies with an unknown bucket, `lost_attempts` requests that may have been billed although no answer came.
    `seconds` is time spent waiting.
    """

    usage: Usage
    cost_usd: float | None
    replies: int
    unreported_replies: int
    lost_attempts: int
    lower_bound: bool
    cost_lower_bound: bool
    seconds: float


def total(events: Iterable[Event]) -> Totals:
    """Add up what `events` say of the model's calls."""
    replies: list[ModelReplied] = []
    lost = 0
    for event in events:
        if isinstance(event, ModelReplied):
            replies.append(event)
        lost += lost_attempts(event)
    sums = {name: _sum(getattr(reply.usage, name) for reply in replies) for name in (*BUCKETS, *ASIDE)}
    unreported = sum(1 for reply in replies if not reply.usage.known)
    cost = sum_usd(reply.cost_usd for reply in replies)
    unpriced = lost + sum(1 for reply in replies if reply.cost_usd is None)
    return Totals(
        usage=Usage(**sums),
        cost_usd=None if cost is None else float(cost),
        replies=len(replies),
        unreported_replies=unreported,
        lost_attempts=lost,
        lower_bound=unreported + lost > 0,
        cost_lower_bound=unpriced > 0,
        seconds=sum(reply.seconds for reply in replies),
    )


def lost_attempts(event: Event) -> int:
    """How many requests the event tells of that may have been billed although no answer came."""
    match event:
        case ModelReplied():
            return event.unknown_attempts
        case ModelCallInterrupted():
            return 1
        case ModelCallFailed():
            return event.unknown_attempts or int(event.may_be_billed)
        case _:
            return 0


def _sum(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def sum_usd(values: Iterable[float | None]) -> Decimal | None:
    """The exact sum of recorded costs, None where none is known.

    A cost is an exact decimal that was recorded as the float next to it, whose shortest form is that decimal again.
    """
    known = [Decimal(repr(value)) for value in values if value is not None]
    return sum(known, Decimal()) if known else None
