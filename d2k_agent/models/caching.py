"""What of a request a provider's cache holds: its rules, where prefixes end, how long entries live, what to expect.

Covers: the plan of each request (marked messages, time to live with the arithmetic behind it) and how many tokens a
request should read from the cache. Does not cover: sending it (litellm_client), or what was really read (the agent
records both). Providers count in tokens of their own, so what is expected rests on what they reported before.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from d2k_agent.models.prices import PriceRow
from d2k_agent.models.protocol import CachePlan, Message
from d2k_agent.models.ttl import FIVE_MINUTES_S, ONE_HOUR_S, chosen_ttl
from d2k_agent.models.usage import Usage

GAPS = 20
"""How many of the last gaps between requests say what the next one will be like."""


@dataclass(frozen=True)
class CacheRules:
    """How a provider caches prefixes.

    `marks`: only where messages are marked, at most `most_marks` of them, and an entry is found at a mark or at most
    `lookback_blocks` before it. Otherwise whatever a request shares with an earlier one, in whole `step_tokens`.
    A prefix below `least_tokens` is not cached. `ttls_s` are the lifetimes to choose from; an entry that is used begins
    its life anew.
    """

    marks: bool
    least_tokens: int = 0
    step_tokens: int = 1
    ttls_s: tuple[int, ...] = (FIVE_MINUTES_S,)
    most_marks: int = 4
    lookback_blocks: int = 20


MARKED = CacheRules(marks=True, least_tokens=1024, ttls_s=(FIVE_MINUTES_S, ONE_HOUR_S))
"""Claude: https://platform.claude.com/docs/en/build-with-claude/prompt-caching (some models have another least)."""
_GEMINI = CacheRules(marks=False, least_tokens=4096, step_tokens=1024)
"""https://ai.google.dev/gemini-api/docs/caching: that least (half of it before Gemini 3), and no promise of a hit.

Google documents neither a step nor a lifetime; 1,024 tokens less than what could be read are therefore no miss.
"""
_BY_ITSELF = {
    "openai": CacheRules(marks=False, least_tokens=1024, step_tokens=128),
    "azure": CacheRules(marks=False, least_tokens=1024, step_tokens=128),
    "deepseek": CacheRules(marks=False, least_tokens=64, step_tokens=64, ttls_s=(ONE_HOUR_S,)),
    "gemini": _GEMINI,
    "vertex_ai": _GEMINI,
}
UNDOCUMENTED = CacheRules(marks=False, step_tokens=16, ttls_s=(ONE_HOUR_S,))
"""A server of one's own: it keeps what fits into its memory, in blocks of about sixteen tokens."""


def rules_of(provider: str, *, marks: bool, own_server: bool) -> CacheRules:
    """The rules that hold for a provider, by LiteLLM's name of it; `own_server`: it is only spoken to like that one."""
    if marks:
        return MARKED
    return UNDOCUMENTED if own_server else _BY_ITSELF.get(provider, UNDOCUMENTED)


class CachePlanner:
    """Plans one conversation's requests.

    `gaps_s` and `usages` are gaps between its requests that were measured before, and what was counted of those
    requests. `price` is the model's; without it a choice is made by the usual ratios.
    """

    def __init__(
        self,
        rules: CacheRules,
        price: PriceRow | None = None,
        gaps_s: Iterable[float] = (),
        usages: Iterable[Usage] = (),
    ) -> None:
        self.rules = rules
        self._price = price
        self._gaps_s = list(gaps_s)
        self._asked: float | None = None
        self._before: Sequence[Message] = ()
        self._changed: int | None = None
        self._cached: int | None = None
        self._new = 0
        self._ttl_s: int | None = None
        for usage in usages:
            self.note(usage)

    def plan(self, messages: Sequence[Message], now: float) -> CachePlan:
        """The plan of the request with `messages` that goes out at `now` (seconds of any steady clock)."""
        gap_s = None if self._asked is None else now - self._asked
        self._gaps_s += [] if gap_s is None else [gap_s]
        pairs = enumerate(zip(self._before, messages, strict=False))
        differ = [at for at, (old, new) in pairs if old is not new and old != new]
        changed = {at for at in (self._changed, *differ[-1:]) if at is not None}
        self._asked, self._before = now, tuple(messages)
        self._changed = max(changed, default=None)
        rates = None if self._price is None else self._price.rates_at((self._cached or 0) + self._new)
        choice = chosen_ttl(self.rules.ttls_s, self._gaps_s[-GAPS:], self._cached, self._new, rates)
        why = "" if choice.ttl_s == self._ttl_s else choice.why
        self._ttl_s = choice.ttl_s
        points = cache_points(messages, changed, moved=bool(differ)) if self.rules.marks else []
        return CachePlan(
            marks=self.rules.marks,
            points=tuple(points[-self.rules.most_marks :]),
            ttl_s=choice.ttl_s,
            least_tokens=self.rules.least_tokens,
            step_tokens=self.rules.step_tokens,
            gap_s=gap_s,
            why=why,
        )

    def note(self, usage: Usage) -> None:
        """What the provider counted of the request that was planned last. Where it did not, the count before holds."""
        if usage.cache_write is None or usage.cache_read is None:
            return
        cached = usage.cache_write + usage.cache_read
        self._new = max(0, cached - self._cached) if self._cached else 0
        self._cached = cached


def cache_points(messages: Sequence[Message], changed: Collection[int] = (), *, moved: bool = False) -> list[int]:
    """Indices of the messages that end a cached prefix, in order.

    The system message (tools come before it and are covered), the end of the opening, the end of the request before,
    which is what was written last time, and the end of this one. Finding the previous end by lookback is not enough:
    providers look back about twenty blocks, and one reply may ask for more tool results than that. Where messages were
    changed since (`moved`), that end is of no use. `changed` are the last messages that were, now and the time before:
    what stands up to there stays, so an entry is kept alive there, and the next change is read up to it.
    """
    replies = [index for index, message in enumerate(messages) if message.get("role") == "assistant"]
    ends = [index - 1 for index in replies if index > 0]
    points = {0} if messages and messages[0].get("role") == "system" else set()
    previous = [] if moved else ends[-1:]
    return sorted(points | {*ends[:1], *changed, *previous} | {len(messages) - 1})


def cached_by(plan: CachePlan, usage: Usage) -> int | None:
    """How many tokens of a request the cache holds after it, so that the next one reads them; None where unknown."""
    if usage.uncached_input is None or usage.cache_write is None or usage.cache_read is None:
        return None
    # Without marks the provider writes what it likes of a request, and counts none of it as written.
    cached = usage.cache_write + usage.cache_read + (0 if plan.marks else usage.uncached_input)
    cached -= cached % plan.step_tokens
    return cached if cached >= plan.least_tokens else 0
