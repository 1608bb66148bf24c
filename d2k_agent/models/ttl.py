"""Five minutes or an hour: how long a cache entry is to live, from the gaps between requests and the prices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from statistics import median

from d2k_agent.models.prices import Rates

FIVE_MINUTES_S, ONE_HOUR_S = 300, 3600
NAMES = {FIVE_MINUTES_S: "5 min", ONE_HOUR_S: "1 h"}
_USUAL = {"write": Decimal("1.25"), "write_1h": Decimal(2), "read": Decimal("0.1")}
"""Times the price of uncached input, where the model's prices are not known."""


@dataclass(frozen=True)
class TtlChoice:
    """A lifetime in seconds, and the arithmetic that chose it in words."""

    ttl_s: int
    why: str


def chosen_ttl(ttls_s: Sequence[int], gaps_s: Sequence[float], prefix: int, new: int, rates: Rates | None) -> TtlChoice:
    """The lifetime under which a turn costs least, if gaps go on as `gaps_s`; the shortest one until one is measured.

    What a turn costs: its `new` tokens are written, and the `prefix` is read, or written anew after a gap that was too
    long.
    """
    shortest = min(ttls_s)
    if len(ttls_s) == 1:
        return TtlChoice(shortest, "")
    if not gaps_s or not prefix:
        return TtlChoice(shortest, f"{NAMES[shortest]}: no gap between requests is measured yet")
    prices = _prices(rates)
    costs = {ttl: _cost(prefix, new, _late(gaps_s, ttl), _write(prices, ttl), prices["read"]) for ttl in ttls_s}
    best = min(ttls_s, key=lambda ttl: (costs[ttl], ttl))
    return TtlChoice(best, _words(best, gaps_s, prefix, new, prices, costs, known=_priced(rates)))


def _late(gaps_s: Sequence[float], ttl_s: int) -> Decimal:
    """The share of gaps that an entry does not outlive."""
    return Decimal(sum(gap > ttl_s for gap in gaps_s)) / len(gaps_s)


def _cost(prefix: int, new: int, late: Decimal, write: Decimal, read: Decimal) -> Decimal:
    return (new * write + prefix * (late * write + (1 - late) * read)) / 1_000_000


def _priced(rates: Rates | None) -> bool:
    return rates is not None and None not in (rates.cache_write, rates.cache_write_1h, rates.cache_read)


def _prices(rates: Rates | None) -> dict[str, Decimal]:
    if rates is None or rates.cache_write is None or rates.cache_write_1h is None or rates.cache_read is None:
        return _USUAL
    return {"write": rates.cache_write, "write_1h": rates.cache_write_1h, "read": rates.cache_read}


def _write(prices: dict[str, Decimal], ttl_s: int) -> Decimal:
    return prices["write_1h"] if ttl_s > FIVE_MINUTES_S else prices["write"]


def _words(
    best: int,
    gaps_s: Sequence[float],
    prefix: int,
    new: int,
    prices: dict[str, Decimal],
    costs: dict[int, Decimal],
    *,
    known: bool,
) -> str:
    unit = "US$" if known else "millions of uncached tokens' worth"
    sums = []
    for ttl, cost in costs.items():
        late, write, read = _late(gaps_s, ttl), _write(prices, ttl), prices["read"]
        sums.append(
            f"{NAMES[ttl]} {new:,} x {write} + {prefix:,} x ({late:.2f} x {write} + {1 - late:.2f} x {read}) "
            f"= {cost:.4f}"
        )
    longer = ", ".join(f"longer than {NAMES[ttl]}: {sum(gap > ttl for gap in gaps_s)}" for ttl in costs)
    return (
        f"{NAMES[best]}: the last {len(gaps_s)} gaps between requests have a median of {median(gaps_s):.0f} s "
        f"({longer}); a turn with {prefix:,} cached and {new:,} new tokens, in {unit}: {'; '.join(sums)}"
    )
