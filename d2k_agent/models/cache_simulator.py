"""A provider's prefix cache on this machine: what a request would read and write, without asking anybody.

Covers: both kinds of rules (marked messages, and by itself), lifetimes, and a model around another one whose usage is
that of the simulated cache. Does not cover: what a real provider forgets early. Tokens are counted here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import accumulate
from typing import Any

from d2k_agent.models.caching import CachePlanner, CacheRules
from d2k_agent.models.prefix import Prefix
from d2k_agent.models.prices import PriceRow, cost_usd
from d2k_agent.models.protocol import CachePlan, Message, Model, ModelReply
from d2k_agent.models.tokens import count_message, count_tokens
from d2k_agent.models.ttl import ONE_HOUR_S
from d2k_agent.models.usage import Usage


@dataclass
class _Entry:
    used: float
    ttl_s: int


class PrefixCache:
    """The cache of one model at one provider. Times are seconds of one steady clock."""

    def __init__(self, rules: CacheRules) -> None:
        self._rules = rules
        self._entries: dict[str, _Entry] = {}
        self._before: list[Any] = []
        self._prefix = Prefix()
        self._tokens: list[int] = []
        self._blocks: list[int] = []

    def serve(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]], plan: CachePlan, now: float) -> Usage:
        """The input tokens of one request by bucket, output 0. The cache holds it from then on."""
        self._measure([list(tools), *messages])
        upto = list(accumulate(self._tokens))
        keys = [str(self._prefix.digest(items)) for items in range(1, len(upto) + 1)]
        if self._rules.marks:
            return self._serve_marked(keys, upto, plan, now)
        read = max((upto[at] for at, key in enumerate(keys) if self._alive(key, now)), default=0)
        read -= read % self._rules.step_tokens
        read = read if read >= self._rules.least_tokens else 0
        for key in keys:
            self._entries[key] = _Entry(now, plan.ttl_s)
        return Usage(upto[-1] - read, 0, read, 0)

    def _measure(self, items: list[Any]) -> None:
        pairs = zip(self._before, items, strict=False)
        same = next((at for at, (old, new) in enumerate(pairs) if old is not new and old != new), None)
        same = min(len(self._before), len(items)) if same is None else same
        self._prefix.cut(same)
        del self._tokens[same:], self._blocks[same:]
        for item in items[same:]:
            self._prefix.grow(item)
            self._tokens.append(_tokens_of(item))
            self._blocks.append(_blocks_of(item))
        self._before = items

    def _serve_marked(self, keys: list[str], upto: list[int], plan: CachePlan, now: float) -> Usage:
        ends = sorted(point + 1 for point in plan.points)  # the tools are the first item
        read_at = self._found(keys, ends, now)
        read = 0 if read_at is None else upto[read_at]
        last = ends[-1] if ends and upto[ends[-1]] >= self._rules.least_tokens else None
        written = 0 if last is None else max(0, upto[last] - read)
        for end in ends:
            # One entry serves all behind it too: what is read is used anew, whatever its life was to be at first.
            if upto[end] >= self._rules.least_tokens:
                known = self._alive(keys[end], now)
                ttl_s = max(plan.ttl_s, self._entries[keys[end]].ttl_s) if known else plan.ttl_s
                self._entries[keys[end]] = _Entry(now, ttl_s)
        if read_at is not None and self._alive(keys[read_at], now):
            self._entries[keys[read_at]].used = now
        hour = written if plan.ttl_s >= ONE_HOUR_S else 0
        return Usage(upto[-1] - read - written, written, read, 0, cache_write_1h=hour)

    def _found(self, keys: list[str], ends: Sequence[int], now: float) -> int | None:
        """The last item of the longest prefix that is found: at a mark, or a few blocks before it."""
        for end in reversed(ends):
            at, left = end, self._rules.lookback_blocks
            while at >= 0 and left >= 0:
                if self._alive(keys[at], now):
                    return at
                left -= self._blocks[at]
                at -= 1
        return None

    def _alive(self, key: str, now: float) -> bool:
        entry = self._entries.get(key)
        return entry is not None and now - entry.used <= entry.ttl_s


def _tokens_of(item: Any) -> int:
    return count_tokens(json.dumps(item, ensure_ascii=False)) if isinstance(item, list) else count_message(item)


def _blocks_of(item: Any) -> int:
    """Content blocks of a message as a provider counts them."""
    return 1 if isinstance(item, list) else max(1, len(item.get("tool_calls") or ()) + bool(item.get("content")))


class SimulatedModel:
    """Another model's replies, with the usage and the price that a provider of these rules would report."""

    def __init__(
        self, model: Model, rules: CacheRules, clock: Callable[[], float], price: PriceRow | None = None
    ) -> None:
        self.name = model.name
        self._model, self._clock, self._price = model, clock, price
        self._cache = PrefixCache(rules)
        self._planner = CachePlanner(rules, price)

    def complete(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]]) -> ModelReply:
        """The other model's reply. Raises what that one raises."""
        now = self._clock()
        plan = self._planner.plan(messages, now)
        reply = self._model.complete(messages, tools)
        usage = replace(self._cache.serve(messages, tools, plan, now), output=count_message(reply.message))
        self._planner.note(usage)
        cost: Decimal | None = None if self._price is None else cost_usd(self._price, usage)
        return replace(reply, usage=usage, cost_usd=None if cost is None else float(cost), cache=plan)
