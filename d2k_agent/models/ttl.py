"""Five minutes or an hour: how long a cache entry is to live, from the gaps between requests and the prices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from statistics import median

from d2k_agent.models.prices import Rates
from d2k_agent.models.protocol import CachePlan

FIVE_MINUTES_S, ONE_HOUR_S = 300, 3600
NAMES = {FIVE_MINUTES_S: "5 min", ONE_HOUR_S: "1 h"}
USUAL = Rates(Decimal(1), Decimal(5), cache_write=Decimal("1.25"), cache_write_1h=Decimal(2), cache_read=Decimal("0.1"))
"""Times the price of uncached input, where the model's prices are not known."""


@dataclass(frozen=True)
class TtlChoice:
    """A lifetime in seconds, and the arithmetic that chose it in words."""

    ttl_s: int
    why: str


def chosen_ttl(
    ttls_s: Sequence[int], gaps_s: Sequence[float], prefix: int | None, new: int, rates: Rates | None
) -> TtlChoice:
    """The lifetime under which a turn costs least, if gaps go on as `gaps_s`; the shortest one until one is measured.

    What a turn costs: its `new` tokens are written, and the `prefix` is read, or written anew after a gap that was too
    long. A `prefix` of None is one that nobody counted yet.
    """
    shortest = min(ttls_s)
    if len(ttls_s) == 1:
        return TtlChoice(shortest, "")
    if not gaps_s:
        return TtlChoice(shortest, f"{NAMES[shortest]}: no gap between requests is measured yet")
    if prefix is None:
        return TtlChoice(shortest, f"{NAMES[shortest]}: nobody has said yet how much of a request the cache holds")
    if not prefix:
        return TtlChoice(shortest, f"{NAMES[shortest]}: the cache holds nothing of the last request")
    prices = USUAL if rates is None or not _priced(rates) else rates
    costs = {ttl: _cost(prefix, new, _late(gaps_s, ttl), _write(prices, ttl), _read(prices)) for ttl in ttls_s}
    best = min(ttls_s, key=lambda ttl: (costs[ttl], ttl))
    return TtlChoice(best, _words(best, gaps_s, prefix, new, prices, costs))


def write_rate(rates: Rates, plan: CachePlan | None) -> Decimal:
    """What a million tokens cost that are written into the cache under `plan`, by default for five minutes.

    Where writes have no price of their own, they are priced as any input.
    """
    return _write(rates, plan.ttl_s if plan is not None and plan.marks else FIVE_MINUTES_S)


def _late(gaps_s: Sequence[float], ttl_s: int) -> Decimal:
    """The share of gaps that an entry does not outlive."""
    return Decimal(sum(gap > ttl_s for gap in gaps_s)) / len(gaps_s)


def _cost(prefix: int, new: int, late: Decimal, write: Decimal, read: Decimal) -> Decimal:
    return (new * write + prefix * (late * write + (1 - late) * read)) / 1_000_000


def _priced(rates: Rates) -> bool:
    return None not in (rates.cache_write, rates.cache_write_1h, rates.cache_read)


def _write(rates: Rates, ttl_s: int) -> Decimal:
    hour = rates.cache_write_1h if ttl_s > FIVE_MINUTES_S else None
    return hour or rates.cache_write or rates.uncached_input


def _read(rates: Rates) -> Decimal:
    return rates.uncached_input if rates.cache_read is None else rates.cache_read


def _words(
    best: int,
    gaps_s: Sequence[float],
    prefix: int,
    new: int,
    prices: Rates,
    costs: dict[int, Decimal],
) -> str:
    unit = "US$" if prices is not USUAL else "millions of uncached tokens' worth"
    sums = []
    for ttl, cost in costs.items():
        late, write, read = _late(gaps_s, ttl), _write(prices, ttl), _read(prices)
        sums.append(
            f"{NAMES[ttl]} {new:,} x {write} + {prefix:,} x ({late:.2f} x {write} + {1 - late:.2f} x {read}) "
            f"= {cost:.4f}"
        )
    longer = ", ".join(f"longer than {NAMES[ttl]}: {sum(gap > ttl for gap in gaps_s)}" for ttl in costs)
    return (
        f"{NAMES[best]}: the last {len(gaps_s)} gaps between requests have a median of {median(gaps_s):.0f} s "
        f"({longer}); a turn with {prefix:,} cached and {new:,} new tokens, in {unit}: {'; '.join(sums)}"
    )
