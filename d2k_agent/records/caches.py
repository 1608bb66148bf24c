"""A run and its provider's cache: what was expected of it and read, and what shortening old results saved and cost."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

from d2k_agent.models import PriceRow
from d2k_agent.models.ttl import write_rate
from d2k_agent.records.events import CacheChecked, Compacted, Event, ModelCallStarted, ModelReplied, RunResumed

_MILLION = Decimal(1_000_000)


@dataclass(frozen=True)
class Compaction:
    """One step in which old results were shortened, and the number of `requests` that were answered since.

    `saved_usd` is what the tokens that they did without would have cost as cached input, `rewritten_usd` what writing
    the rest into the cache anew cost above reading it, for as long as the next request's entries were to live; None
    where the prices do not say, or no request was answered since. Both are estimates: the tokens were counted here.
    """

    event: Compacted
    requests: int
    saved_usd: Decimal | None
    rewritten_usd: Decimal | None

    @property
    def saved_tokens(self) -> int:
        """Input tokens that later requests did without."""
        return self.event.saved_tokens * self.requests


@dataclass(frozen=True)
class CacheRecord:
    """Sums over the requests that could be compared.

    Of the `expected` tokens `observed` were read, and `unexpected` ones beside them: what one request reads beyond what
    it was to hides nothing that another one missed. `misses` read less than expected, for a reason that they say.
    `no_turn` has the requests whose reply asked for no tool, and so is none.
    """

    requests: int
    expected: int
    observed: int
    unexpected: int
    misses: tuple[CacheChecked, ...]
    compactions: tuple[Compaction, ...]
    no_turn: frozenset[int]


def cache_record(events: Iterable[Event], price: PriceRow | None) -> CacheRecord:
    """What `events` say of the cache, at the prices of `price`, None where none are known."""
    events = list(events)
    checks = [event for event in events if isinstance(event, CacheChecked)]
    return CacheRecord(
        requests=len(checks),
        expected=sum(check.expected for check in checks),
        observed=sum(min(check.observed, check.expected) for check in checks),
        unexpected=sum(max(0, check.observed - check.expected) for check in checks),
        misses=tuple(check for check in checks if check.why is not None),
        compactions=tuple(
            _compaction(event, events[at:], price) for at, event in enumerate(events) if isinstance(event, Compacted)
        ),
        no_turn=frozenset(item.call for item in events if isinstance(item, ModelReplied) and not item.calls_tools),
    )


def _compaction(event: Compacted, since: list[Event], price: PriceRow | None) -> Compaction:
    replies = [later for later in since if isinstance(later, ModelReplied)]
    rates = [] if price is None else [price.rates_at(reply.usage.input_tokens or 0) for reply in replies]
    reads = [rate.cache_read for rate in rates if rate.cache_read is not None]
    if not reads or len(reads) < len(replies):
        return Compaction(event, len(replies), None, None)
    dearer = write_rate(rates[0], replies[0].cache) - reads[0]
    saved = event.saved_tokens * sum(reads, Decimal()) / _MILLION
    return Compaction(event, len(replies), saved, event.rewritten_tokens * dearer / _MILLION)


def request_gaps_s(events: Iterable[Event]) -> tuple[float, ...]:
    """Seconds between one request and the next, in order. A gap in which the run was interrupted says nothing."""
    gaps: list[float] = []
    before: ModelCallStarted | None = None
    for event in events:
        if isinstance(event, RunResumed):
            before = None
        elif isinstance(event, ModelCallStarted):
            if before is not None and before.time is not None and event.time is not None:
                gaps.append((event.time - before.time).total_seconds())
            before = event
    return tuple(gaps)
