"""What a run may take, what it has taken, and the words that tell a model of it.

Covers: turns, dollars, tokens by bucket, time. A budget that is reached ends the run before the next request, with its
selection; what was begun is brought to its end, so a run may take a little more than it was given. Limits in dollars
and tokens hold for what was counted, the replies: a request without an answer may have been billed, nobody knows how
much, and what is left is then told as an upper bound. Does not cover: the count of turns (the state holds it), or who
stops the run (nodes).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal

from d2k_agent.config import TOTAL, RunConfig
from d2k_agent.models import Usage
from d2k_agent.records import (
    BudgetTold,
    Event,
    ModelReplied,
    RunResumed,
    StopReason,
    ToolFinished,
    lost_attempts,
    queued_s,
    sum_usd,
)

DOLLAR_DECIMALS = 4
"""Those of the reports: a small budget must not be told as none."""


@dataclass
class Taken:
    """What a run has taken, read off its events in order; time between an interruption and the resume is none.

    `lost` counts requests that may have been billed although no answer came: with one of them, tokens and dollars are
    lower bounds. `told_after` is the last turn after which the model was told what is left.
    """

    costs: list[float | None] = field(default_factory=list)
    usages: list[Usage] = field(default_factory=list)
    queued_s: float = 0.0
    lost: int = 0
    told_after: int = 0
    _earlier_s: float = 0.0
    _began: datetime | None = None
    _last: datetime | None = None

    def feed(self, event: Event) -> None:
        """Count one more event."""
        if event.time is not None:
            if self._began is None or isinstance(event, RunResumed):
                self._earlier_s += self._session_s(self._last)
                self._began = event.time
            self._last = event.time
        self.lost += lost_attempts(event)
        if isinstance(event, ModelReplied):
            self.costs.append(event.cost_usd)
            self.usages.append(event.usage)
        elif isinstance(event, ToolFinished):
            self.queued_s += queued_s(event)
        elif isinstance(event, BudgetTold):
            self.told_after = event.turn

    def wall_s(self, now: datetime) -> float:
        """Seconds in which somebody drove the run."""
        return self._earlier_s + self._session_s(now)

    def working_s(self, now: datetime) -> float:
        """The same less those in which a tool waited for a GPU that others used."""
        return max(0.0, self.wall_s(now) - self.queued_s)

    def tokens(self, bucket: str) -> int | None:
        """Tokens of a bucket, or of all; None where a reply did not say."""
        counts = [_tokens(usage, bucket) for usage in self.usages]
        known = [count for count in counts if count is not None]
        return sum(known) if len(known) == len(counts) else None

    def usd(self) -> Decimal | None:
        """What the replies cost; None where the price of one is not known."""
        return None if None in self.costs else sum_usd(self.costs) or Decimal()

    def _session_s(self, until: datetime | None) -> float:
        return 0.0 if self._began is None or until is None else max(0.0, (until - self._began).total_seconds())


@dataclass(frozen=True)
class Budgets:
    """The limits of a run, None or absent where there is none. `shown`: the model is told of them."""

    turns: int
    usd: float | None = None
    tokens: dict[str, int] = field(default_factory=dict)
    wall_s: float | None = None
    working_s: float | None = None
    shown: bool = False

    @classmethod
    def of(cls, config: RunConfig) -> Budgets:
        """Those that the configuration names."""
        return cls(
            config.turns,
            config.budget_usd,
            dict(config.budget_tokens),
            config.budget_wall_s,
            config.budget_working_s,
            config.show_budget,
        )

    def reached(self, taken: Taken) -> StopReason | None:
        """Why no further request may be made, None where one may. The count of turns is the state's.

        Lost requests end nothing by themselves: what they took is not known.
        """
        if self.usd is not None:
            spent = taken.usd()
            if spent is None:
                return StopReason.COST_UNKNOWN
            if spent >= Decimal(repr(self.usd)):
                return StopReason.COST_LIMIT
        for bucket, limit in self.tokens.items():
            tokens = taken.tokens(bucket)
            if tokens is None:
                return StopReason.TOKENS_UNKNOWN
            if tokens >= limit:
                return StopReason.TOKEN_LIMIT
        now = datetime.now(UTC)
        if self.wall_s is not None and taken.wall_s(now) >= self.wall_s:
            return StopReason.WALL_TIME_LIMIT
        if self.working_s is not None and taken.working_s(now) >= self.working_s:
            return StopReason.WORKING_TIME_LIMIT
        return None

    def announced(self) -> str:
        """The limits in words, for the beginning of a conversation."""
        lines = [f"- {self.turns} turns; a turn is one reply of yours that calls tools, however many"]
        if self.usd is not None:
            lines.append(f"- US$ {_dollars(self.usd)} for all of your replies, their input included")
        lines += [f"- {limit:,} {_WORDS[bucket]}" for bucket, limit in self.tokens.items()]
        if self.wall_s is not None:
            lines.append(f"- {_amount(self.wall_s)} seconds, from the beginning to the end")
        if self.working_s is not None:
            lines.append(f"- {_amount(self.working_s)} seconds, waiting for a GPU that others use not counted")
        return "\n".join((_LIMITED, *lines, "After every turn you are told what is left."))

    def left(self, turn: int, taken: Taken) -> str:
        """What is left after turn `turn`, each with what it is left of."""
        return f"[budget left: {'; '.join(self._left(turn, taken))}]"

    def _left(self, turn: int, taken: Taken) -> Iterator[str]:
        yield f"{self.turns - turn} of {self.turns} turns"
        bound = "at most " if taken.lost else ""
        if self.usd is not None:
            spent = taken.usd()
            rest = None if spent is None else max(Decimal(), Decimal(repr(self.usd)) - spent)
            known = None if rest is None else f"{bound}US$ {_dollars(rest)} of {_dollars(self.usd)}"
            yield known or "dollars unknown"
        for bucket, limit in self.tokens.items():
            tokens = taken.tokens(bucket)
            rest_tokens = "an unknown number" if tokens is None else f"{bound}{max(0, limit - tokens):,}"
            yield f"{rest_tokens} of {limit:,} {_WORDS[bucket]}"
        now = datetime.now(UTC)
        if self.wall_s is not None:
            rest_s = max(0.0, self.wall_s - taken.wall_s(now))
            yield f"{_amount(rest_s)} of {_amount(self.wall_s)} seconds"
        if self.working_s is not None:
            rest_s = max(0.0, self.working_s - taken.working_s(now))
            yield f"{_amount(rest_s)} of {_amount(self.working_s)} seconds without waits for a GPU"


_LIMITED = (
    "This run is limited. It ends when the first of these is used up, and the best submission made until then stands; "
    "nothing is lost by using less:"
)
_WORDS = {
    "uncached_input": "tokens of input that no cache holds",
    "cache_write": "tokens written to the cache",
    "cache_read": "tokens read from the cache",
    "output": "tokens of output, reasoning included",
    TOTAL: "tokens of input and output together, counted anew with every request",
}


def _dollars(value: Decimal | float) -> str:
    return _amount(value, DOLLAR_DECIMALS)


def _amount(value: Decimal | float, decimals: int = 0) -> str:
    """An amount above 0 is never told as 0."""
    least = Decimal(10) ** -decimals
    return f"less than {least}" if 0 < value < least else f"{value:,.{decimals}f}"


def _tokens(usage: Usage, bucket: str) -> int | None:
    if bucket != TOTAL:
        count: int | None = getattr(usage, bucket)
        return count
    inputs, output = usage.input_tokens, usage.output
    return None if inputs is None or output is None else inputs + output
