"""Stopping policies: whether a run should end after the turn that is over, from its points until then and no later.

Covers: what each policy compares. Does not cover: their textual form (parsing), or running them over a run (replaying).
Every policy waits for the first eligible submission: before it there is no score that could have settled.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import ClassVar, Protocol

from d2k_agent.contract.wording import counted
from d2k_agent.records import Point, Spent, Submission

NOTHING_ELIGIBLE = "nothing eligible was handed in yet"
TOKENS_PER_MTOK = 1_000_000


@dataclass(frozen=True)
class BestFloors:
    """Milliseconds that a call of the best known algorithm takes at least, by workload; `source` says where they are
    from. No model is told of them."""

    ms: Mapping[str, float]
    source: str


FloorsFor = Callable[[Submission], BestFloors | None]
"""The floors that hold where and as a submission was measured; None where none is known."""


@dataclass(frozen=True)
class Decision:
    """`stop` None: the policy cannot tell, since something that it needs is unknown.

    `why` is a sentence without its full stop, `numbers` what was compared, by name.
    """

    stop: bool | None
    why: str
    numbers: Mapping[str, float] = field(default_factory=dict)


class Policy(Protocol):
    """A rule that ends a run early."""

    @property
    def text(self) -> str:
        """The policy as parse_policy() reads it."""

    def decide(self, points: Sequence[Point], floors_for: FloorsFor) -> Decision:
        """Whether to stop after the last of `points`, which begin before the first turn and leave out none."""


@dataclass(frozen=True)
class Headroom:
    """Stop when the incumbent's latency is at most `factor` times the floor, as a geometric mean over the workloads.

    That is how much the score could still rise: it is a geometric mean of the same latencies. An unknown floor never
    stops a run.
    """

    NAME: ClassVar = "headroom"
    factor: float = 1.2

    @property
    def text(self) -> str:
        return f"{self.NAME}:factor={_shortest(self.factor)}"

    def decide(self, points: Sequence[Point], floors_for: FloorsFor) -> Decision:
        best = points[-1].best
        if best is None:
            return Decision(False, NOTHING_ELIGIBLE)
        floors = floors_for(best)
        if floors is None:
            device = best.verdict.environment.device_name
            return Decision(None, f"no floor of this task on {device} is known, so the headroom is not")
        latencies_ms = _latencies_ms(best)
        missing = sorted(latencies_ms.keys() - floors.ms.keys())
        if missing:
            return Decision(None, f"no floor of {', '.join(missing)} is known, so the headroom is not")
        ratios = {label: mean_ms / floors.ms[label] for label, mean_ms in latencies_ms.items()}
        over = math.exp(math.fsum(map(math.log, ratios.values())) / len(ratios))
        numbers = {"over_floor": over, **{f"over_floor.{label}": ratio for label, ratio in sorted(ratios.items())}}
        why = f"the candidate of turn {best.turn} takes {over:.3g} times the floor"
        return Decision(over <= self.factor, why, numbers)


@dataclass(frozen=True)
class Plateau:
    """Stop when the last `turns` turns made the score better by no more than `percent`."""

    NAME: ClassVar = "plateau"
    turns: int = 20
    percent: float = 1.0

    @property
    def text(self) -> str:
        return f"{self.NAME}:turns={self.turns},percent={_shortest(self.percent)}"

    def decide(self, points: Sequence[Point], floors_for: FloorsFor) -> Decision:
        then = _before(points, self.turns)
        if isinstance(then, Decision):
            return then
        gained = 100 * (points[-1].score / then.score - 1)
        why = f"the last {counted(self.turns, 'turn')} made the score better by {gained:.3g} %"
        return Decision(gained <= self.percent, why, {"gained_percent": gained})


@dataclass(frozen=True)
class Gain:
    """Stop when the next turn is expected to make the score better by less than a number of percent a dollar.

    Both are expected to be as in the last `turns` turns: the score grew by some percent a turn (a geometric mean), and
    a turn cost some dollars (an arithmetic one). Where dollars do not tell, tokens decide if `percent_per_mtok`
    (percent a million tokens of any bucket) is given; else the policy cannot tell. What is not counted only makes a
    turn dearer: a gain that is too small stays so, and one that is large enough may not be.
    """

    NAME: ClassVar = "gain"
    percent_per_usd: float | None = None
    percent_per_mtok: float | None = None
    turns: int = 20

    @property
    def text(self) -> str:
        limits = {"percent-per-usd": self.percent_per_usd, "percent-per-mtok": self.percent_per_mtok}
        told = [f"{name}={_shortest(value)}" for name, value in limits.items() if value is not None]
        return f"{self.NAME}:{','.join([*told, f'turns={self.turns}'])}"

    def decide(self, points: Sequence[Point], floors_for: FloorsFor) -> Decision:
        then = _before(points, self.turns)
        if isinstance(then, Decision):
            return then
        now = points[-1]
        turn_percent = 100 * ((now.score / then.score) ** (1 / self.turns) - 1)
        unknown = []
        for limit, taken in (
            (self.percent_per_usd, _usd(then.spent, now.spent)),
            (self.percent_per_mtok, _mtok(then.spent, now.spent)),
        ):
            if limit is None:
                continue
            decision = (
                None if taken.amount is None else _compared(turn_percent, taken.amount / self.turns, limit, taken)
            )
            if decision is not None:
                return decision
            unknown.append(taken.unit)
        spans = f"the last {counted(self.turns, 'turn')}"
        return Decision(None, f"nobody knows how many {' and '.join(unknown)} {spans} took")


@dataclass(frozen=True)
class _Taken:
    """What some turns took, in a unit that numbers call `name`; None where nothing of it is known.

    `lower_bound`: a part of it is not, so that it may be more.
    """

    unit: str
    name: str
    amount: float | None
    lower_bound: bool


def _compared(turn_percent: float, turn_cost: float, limit: float, taken: _Taken) -> Decision | None:
    """Whether a turn gains too little for what it costs; None where what is not counted decides that."""
    numbers = {"percent_per_turn": turn_percent, f"{taken.name}_per_turn": turn_cost}
    if turn_cost == 0:
        return Decision(False, "turns cost nothing", numbers)
    rate = turn_percent / turn_cost
    if taken.lower_bound and rate >= limit:
        return None
    least, most = ("at least ", "at most ") if taken.lower_bound else ("", "")
    why = (
        f"the next turn is expected to gain {turn_percent:.3g} % for {least}{turn_cost:.3g} {taken.unit}, "
        f"which is {most}{rate:.3g} % each"
    )
    return Decision(rate < limit, why, {**numbers, f"percent_per_{taken.name}": rate})


def _shortest(value: float) -> str:
    """A number as it is typed, with all of its digits."""
    return repr(value).removesuffix(".0")


def _before(points: Sequence[Point], turns: int) -> Point | Decision:
    """The point `turns` turns ago; a decision to go on where there was no eligible submission then."""
    if points[-1].best is None:
        return Decision(False, NOTHING_ELIGIBLE)
    then = points[-1 - turns] if len(points) > turns else points[0]
    if then.best is None:
        since = sum(point.best is not None for point in points) - 1
        return Decision(False, f"{counted(since, 'turn')} since the first eligible submission, of {turns}")
    return then


def _latencies_ms(best: Submission) -> dict[str, float]:
    """Milliseconds a call of each registered workload. An eligible submission has them all."""
    measured = best.times.workloads if best.times is not None else ()
    return {
        item.label: item.measurement.mean_ms
        for item in measured
        if item.measurement is not None and item.label in best.registered
    }


def _usd(then: Spent, now: Spent) -> _Taken:
    gap = now.cost_gaps > then.cost_gaps
    return _Taken("US$", "usd", _more(then.cost_usd, now.cost_usd, gap), gap)


def _mtok(then: Spent, now: Spent) -> _Taken:
    gap = now.token_gaps > then.token_gaps
    tokens = _more(then.tokens, now.tokens, gap)
    return _Taken("million tokens", "mtok", None if tokens is None else tokens / TOKENS_PER_MTOK, gap)


def _more(then: Decimal | int | None, now: Decimal | int | None, gap: bool) -> float | None:
    """How much was added; None where nothing of it is known. Nothing is a sum only where none is missing."""
    if now is None:
        return None
    added = float(now) - float(then or 0)
    return None if added == 0 and gap else added
