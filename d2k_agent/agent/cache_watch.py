"""Each request beside the one before it: what it should have read from the provider's cache, and why it read less.

All follows from the event log, so a resumed run compares with the last request of the process before it. Does not
cover: what a provider's rules are (models/caching.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from d2k_agent.contract.wording import counted
from d2k_agent.models import CachePlan
from d2k_agent.models.caching import cached_by
from d2k_agent.models.prefix import Prefix
from d2k_agent.records import CacheChecked, Compacted, ModelCallStarted, ModelReplied


class CacheWatch:
    """What was sent so far. Its events are told in the order in which they happened."""

    def __init__(self) -> None:
        self._start: ModelCallStarted | None = None
        self._shortened: str | None = None
        self._answered: list[_Answered] = []

    def started(self, event: ModelCallStarted) -> None:
        """A request goes out."""
        self._start = event

    def compacted(self, event: Compacted, place: str) -> None:
        """Results were shortened since the last answer; `place` says in words which item is the first of them."""
        many = counted(len(event.results), "old result")
        self._shortened = f"before this request {many} became a digest, the first of them {place}"

    def answered(self, event: ModelReplied) -> None:
        """The request that went out last was answered."""
        if self._start is not None:
            self._answered.append(_Answered(self._start, event))
        self._shortened = None

    def check(self, reply: ModelReplied, prefix: Prefix, places: Sequence[str]) -> CacheChecked | None:
        """The comparison for `reply` to the request in flight, None where nothing is known to compare.

        `prefix` and `places` are those of the request: `places[n]` says in words what its item n + 1 is.
        """
        start, before, plan = self._start, self._answered[-1] if self._answered else None, reply.cache
        expected = 0 if before is None else before.cached
        observed = reply.usage.cache_read
        if start is None or plan is None or expected is None or observed is None:
            return None
        why = None
        if before is not None and observed < expected - _tolerance(plan):
            why = self._moved(before, prefix, places) or _not_moved(before, start, plan, reply.parameters)
        return CacheChecked(call=start.call, turn=start.turn, expected=expected, observed=observed, why=why)

    def _moved(self, before: _Answered, prefix: Prefix, places: Sequence[str]) -> str | None:
        """Where the request differs from the one before, None where it begins with all of it."""
        if _begins_with(prefix, before.start):
            return None
        if self._shortened is not None:
            return self._shortened
        equal = (item.start.items or 0 for item in reversed(self._answered) if _begins_with(prefix, item.start))
        same = next(equal, 0)
        where = f"behind {places[same - 1]}" if same else "from its first item on"
        return f"the request differs from what was sent before {where}, and no event says why"


@dataclass(frozen=True)
class _Answered:
    """A request that was answered."""

    start: ModelCallStarted
    reply: ModelReplied

    @property
    def cached(self) -> int | None:
        """The tokens that it left in the cache."""
        return None if self.reply.cache is None else cached_by(self.reply.cache, self.reply.usage)


def _tolerance(plan: CachePlan) -> int:
    """A block more or less, where a provider caches in blocks, is no miss."""
    return plan.step_tokens if plan.step_tokens > 1 else 0


def _begins_with(prefix: Prefix, start: ModelCallStarted) -> bool:
    return start.items is not None and prefix.digest(start.items) == start.prefix_sha256


def _not_moved(before: _Answered, start: ModelCallStarted, plan: CachePlan, parameters: dict[str, Any]) -> str:
    """Why an equal beginning was not read."""
    earlier = before.reply.parameters
    names = [name for name in {**earlier, **parameters} if earlier.get(name) != parameters.get(name)]
    if names:
        return f"the same beginning, but other parameters: {', '.join(names)}"
    gap_s = _gap_s(before.start, start) if plan.gap_s is None else plan.gap_s
    ttl_s = before.reply.cache.ttl_s if before.reply.cache else None
    if gap_s is None or ttl_s is None:
        return "the same beginning, byte for byte; nobody knows how long after the request before"
    if gap_s > ttl_s:
        live = "live" if plan.marks else "need not live longer than"
        return f"the same beginning, but {gap_s:.0f} s after the request before, and entries {live} {ttl_s} s"
    kept = "did not keep it" if plan.marks else "did not use all of it, and promises no more"
    return f"the same beginning, byte for byte, {gap_s:.0f} s after the request before: the provider {kept}"


def _gap_s(before: ModelCallStarted, start: ModelCallStarted) -> float | None:
    if before.time is None or start.time is None:
        return None
    return (start.time - before.time).total_seconds()
