"""What a run read from its provider's cache, in words and as data."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from d2k_agent.contract.wording import counted
from d2k_agent.reports.tables import count

if TYPE_CHECKING:
    from d2k_agent.records import CacheChecked, CacheRecord, Compacted, Compaction

MOST_MISSES = 8
_VARIES = re.compile(r"\d[\d,.]* (?:s|old results?)\b")
"""Seconds and how many results. Other numbers of a reason are of a place, or a name's: those are reasons apart."""


def cause_of(event: CacheChecked) -> tuple[str, bool]:
    """What misses of one cause have in common: why, its seconds and amounts apart, and whether anything was read."""
    return _VARIES.sub("#", event.why or ""), event.observed > 0


def check_text(event: CacheChecked) -> str:
    """One request: what it read, what was expected, and why it read less."""
    why = "" if event.why is None else f": {event.why}"
    read, more = min(event.observed, event.expected), max(0, event.observed - event.expected)
    return (
        f"request {event.call} read {count(read)} of {count(event.expected)} expected cached tokens{_more(more)}{why}"
    )


def compacted_text(event: Compacted) -> str:
    """One step of shortening."""
    return f"before request {event.call} old results were shortened: {event.why}"


def cache_lines(record: CacheRecord) -> Iterator[str]:
    """What to know of a run's cache, a sentence each; nothing where nobody counted."""
    if record.requests:
        requests = counted(record.requests, "request")
        read = f"{count(record.observed)} of {count(record.expected)} expected tokens were read in {requests}"
        yield f"cache: {read}{_more(record.unexpected)}."
    causes: dict[tuple[str, bool], list[CacheChecked]] = {}
    for miss in record.misses:
        causes.setdefault(cause_of(miss), []).append(miss)
    for first, *more in list(causes.values())[:MOST_MISSES]:
        lost = count(sum(miss.expected - miss.observed for miss in (first, *more)))
        requests = counted(len(more), "later request")
        alike = f" So did {requests}, for the same reason: {lost} expected tokens in all were not read." if more else ""
        yield f"{check_text(first)}.{alike}"
    left = sum(len(misses) for misses in list(causes.values())[MOST_MISSES:])
    if left:
        yield f"{counted(left, 'more request')} read less than expected; `trace show` says why."
    yield from map(_compaction, record.compactions)


def _more(unexpected: int) -> str:
    return f", and {count(unexpected)} that nobody expected" if unexpected else ""


def _compaction(item: Compaction) -> str:
    event = item.event
    return (
        f"before request {event.call}, {counted(len(event.results), 'old result')} became a digest: "
        f"{counted(item.requests, 'request')} since did without about {count(event.saved_tokens)} tokens each "
        f"({_dollars(item.saved_usd)} as cached input), and about {count(event.rewritten_tokens)} were written anew, "
        f"once ({_dollars(item.rewritten_usd)}), by our own count of tokens."
    )


def cache_data(record: CacheRecord) -> dict[str, Any]:
    """The same as an object. Dollars are null where no price is known; those of compactions rest on our own count.

    `turn` is null for a request whose reply asked for no tool, which is no turn; one that was never answered has the
    turn that it was for.
    """
    return {
        "requests": record.requests,
        "expected_tokens": record.expected,
        "observed_tokens": record.observed,
        "unexpected_tokens": record.unexpected,
        "misses": [
            {
                "call": miss.call,
                "turn": _turn(record, miss),
                "expected": miss.expected,
                "observed": miss.observed,
                "why": miss.why,
            }
            for miss in record.misses
        ],
        "compactions": [
            {
                "call": item.event.call,
                "turn": _turn(record, item.event),
                "results": len(item.event.results),
                "saved_tokens_a_request": item.event.saved_tokens,
                "requests_since": item.requests,
                "rewritten_tokens": item.event.rewritten_tokens,
                "saved_usd": None if item.saved_usd is None else float(item.saved_usd),
                "rewritten_usd": None if item.rewritten_usd is None else float(item.rewritten_usd),
                "why": item.event.why,
            }
            for item in record.compactions
        ],
    }


def _turn(record: CacheRecord, event: CacheChecked | Compacted) -> int | None:
    return None if event.call in record.no_turn else event.turn


def _dollars(value: Decimal | None) -> str:
    return "US$ unknown" if value is None else f"about US${value:,.4f}"
