"""What tokens cost: rates per million tokens, and the price of one reply in exact decimals.

Covers: a model's price row and the arithmetic. Does not cover: where rows come from (price_lists.py), or sums over a
run (records). Nothing is rounded here: a sum is exact, and is rounded once, where it is printed.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from d2k_agent.models.usage import Usage

PRICED = ("uncached_input", "cache_write", "cache_read", "output", "unsplit_input")
"""What a reply is billed for: the four buckets, and input that nobody split."""
_MILLION = Decimal(1_000_000)


@dataclass(frozen=True)
class Rates:
    """US$ per million tokens. None: the source names no such rate, so tokens of that kind have no known price.

    `cache_write` is for entries that live five minutes, `cache_write_1h` for those of an hour. `reasoning` is the rate
    of that part of the output, None where it is that of the output.
    """

    uncached_input: Decimal
    output: Decimal
    cache_write: Decimal | None = None
    cache_write_1h: Decimal | None = None
    cache_read: Decimal | None = None
    reasoning: Decimal | None = None


@dataclass(frozen=True)
class Tier:
    """Rates of every token of a request whose input (cached or not) is longer than `above_input` tokens."""

    above_input: int
    rates: Rates


@dataclass(frozen=True)
class PriceRow:
    """One model's prices. `source` is a price page, a version of LiteLLM or a file; `date` (ISO 8601) when it said so.

    `date` is None where the source has none. `tiers` are ordered by `above_input`, the smallest first.
    """

    model: str
    source: str
    date: str | None
    rates: Rates
    tiers: tuple[Tier, ...] = ()

    def rates_at(self, input_tokens: int) -> Rates:
        """The rates of a request with so many input tokens."""
        found = self.rates
        for tier in self.tiers:
            if input_tokens > tier.above_input:
                found = tier.rates
        return found


def costs(row: PriceRow, usage: Usage) -> dict[str, Decimal | None]:
    """US$ by those of PRICED that a reply has: `unsplit_input` only where there is some.

    None: the number of tokens is not known, or there are some and their rate is not. Reasoning that nobody counted is
    priced as any output. Input that nobody split costs what uncached input does: who reports no cache is taken to give
    no discount on it. Where a part of the input is unknown, the tier is that of the known part.
    """
    rates, billed = _billed(row, usage)
    return {name: _cost(rates, parts) for name, parts in billed.items()}


def missing_rates(row: PriceRow, usage: Usage) -> tuple[str, ...]:
    """The names of those Rates that the row lacks, and of which the reply has tokens."""
    rates, billed = _billed(row, usage)
    parts = [part for parts in billed.values() for part in parts]
    return tuple(name for name, tokens in parts if tokens and getattr(rates, name) is None)


def cost_usd(row: PriceRow, usage: Usage) -> Decimal | None:
    """The price of one reply in US$; None where a part of it is not known."""
    parts = costs(row, usage).values()
    known = [part for part in parts if part is not None]
    return sum(known, Decimal()) if len(known) == len(parts) else None


def _billed(row: PriceRow, usage: Usage) -> tuple[Rates, dict[str, tuple[tuple[str, int | None], ...]]]:
    """The rates that hold for a reply, and by what it is billed for: how many tokens at which of them."""
    unsplit = usage.unsplit_input
    inputs = [usage.uncached_input, usage.cache_write, usage.cache_read]
    if unsplit is not None:  # what stands in no bucket stands there
        inputs = [count or 0 for count in inputs]
    uncached, write, read = inputs
    rates = row.rates_at(sum(count or 0 for count in (*inputs, unsplit)))
    hour, thought = usage.cache_write_1h or 0, (usage.reasoning or 0 if rates.reasoning is not None else 0)
    billed: dict[str, tuple[tuple[str, int | None], ...]] = {
        "uncached_input": (("uncached_input", uncached),),
        "cache_write": (("cache_write", write and write - hour), ("cache_write_1h", hour)),
        "cache_read": (("cache_read", read),),
        "output": (("output", usage.output and usage.output - thought), ("reasoning", thought)),
    }
    if unsplit is not None:
        billed["unsplit_input"] = (("uncached_input", unsplit),)
    return rates, billed


def _cost(rates: Rates, parts: tuple[tuple[str, int | None], ...]) -> Decimal | None:
    """The sum of tokens times rate. No tokens cost nothing, whatever their rate."""
    total = Decimal()
    for name, tokens in parts:
        rate: Decimal | None = getattr(rates, name)
        if tokens is None or (tokens and rate is None):
            return None
        total += tokens * (rate or 0) / _MILLION
    return total
