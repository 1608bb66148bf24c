"""A run's curve: the score after every turn, and what it took to get there. What a smaller budget had given follows.

Covers: the points by the protocol's rule for progress curves. Does not cover: drawing or printing them (reports), or
which submission stands for a run (agent).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TypeVar

from d2k_agent.models import BUCKETS, PRICED, Usage
from d2k_agent.records.events import (
    ConfirmationReached,
    ConfirmationTook,
    EvaluationTook,
    Event,
    ModelReplied,
    RunFinished,
    RunResumed,
    SelectionMade,
    ToolCallInterrupted,
    ToolCallStarted,
    ToolFinished,
    TurnClosed,
    VerdictReached,
    queued_s,
)
from d2k_agent.records.stop_reason import StopReason
from d2k_agent.records.totals import sum_usd, total
from d2k_agent.records.trace import Submission, Trace, submissions

Number = TypeVar("Number", int, float, Decimal)

FALLBACK_SCORE = 0.1
"""The protocol's score of a curve until the first eligible submission."""
HOLDS_THE_GPU = ("baseline", "correctness", "captured", "launches", "timing", "profile", "sanitize", "device clock")
"""Steps of an evaluation during which the evaluator holds the GPU. Waiting for it is in none of them."""
_ON_A_GPU = ("submit", "profile", "sanitize")
_NOT_OVER = (StopReason.TURN_LIMIT, StopReason.STOP_REQUESTED)
"""A run that ended so would have gone on under a larger budget of turns."""


@dataclass(frozen=True)
class Spent:
    """What a run had taken at some moment, from its beginning. None: nobody knows any of it.

    Gaps count of what a part is not known: requests for tokens and dollars, turns for GPU seconds. Where there are any,
    the truth may be more than the sum, which is a lower bound. `tokens_lower_bound` is True also where a reply's tokens
    are known and their buckets are not. `cost_usd` is what was recorded with the replies. `gpu_seconds` are those for
    which the evaluator held the GPU, and calls of `profile` without their recorded wait for it; what commands of the
    agent did there is not recorded.
    """

    usage: Usage
    tokens_lower_bound: bool
    token_gaps: int
    cost_usd: Decimal | None
    cost_gaps: int
    gpu_seconds: float | None
    gpu_gaps: int

    @property
    def cost_lower_bound(self) -> bool:
        """True where the cost of a request is not known."""
        return self.cost_gaps > 0

    @property
    def gpu_lower_bound(self) -> bool:
        """True where seconds of a turn are not known."""
        return self.gpu_gaps > 0

    @property
    def tokens(self) -> int | None:
        """All tokens that somebody counted, whatever their bucket."""
        known = [count for name in PRICED if (count := getattr(self.usage, name)) is not None]
        return sum(known) if known else None


@dataclass(frozen=True)
class Point:
    """The run once `turn` turns were over. `best` is the fastest eligible submission so far, None before the first."""

    turn: int
    best: Submission | None
    spent: Spent

    @property
    def score(self) -> float:
        """The best geometric-mean speedup so far, also one below the fallback; the fallback where there is none."""
        speedup = None if self.best is None else self.best.geomean_speedup
        return FALLBACK_SCORE if speedup is None else speedup


@dataclass(frozen=True)
class Saved:
    """What a run that ends after some turn leaves out of what it took to its end, and what it keeps, each in percent.

    `score_percent` is the score after that turn in percent of the final one. None: a part is not known, there is
    nothing that could be saved, or no final score. A part of what is left out is never a share: where it has a gap,
    the share is None. Where what came before has one, the share is of what is counted.
    """

    tokens_percent: float | None
    usd_percent: float | None
    gpu_percent: float | None
    score_percent: float | None


@dataclass(frozen=True)
class Curve:
    """`points` begin before the first turn, and go on with every turn that was completed.

    `end` is the run as a whole, with what came after the last turn: replies without a tool call, the confirmation.
    `ended` is False where a run of more turns would have gone on.
    """

    points: tuple[Point, ...]
    end: Point
    ended: bool

    def under(self, turns: int) -> Point | None:
        """Where the run would have ended under a budget of so many turns, all else equal.

        None: it is not known, because this run was ended before.
        """
        if turns < len(self.points):
            return self.points[turns]
        return self.end if self.ended else None

    def saved_after(self, turn: int | None) -> Saved:
        """What an end after `turn` completed turns (None: its own) would have saved and kept of the run.

        Replies after the last turn are saved; GPU time after it is not, since a confirmation follows in any case. Its
        own end saves nothing, whether or not that was counted.
        """
        whole = self.end.spent
        if turn is None:
            tokens, usd, gpu = (
                None if amount == 0 else 0.0 for amount in (whole.tokens, whole.cost_usd, whole.gpu_seconds)
            )
            return Saved(tokens, usd, gpu, None if self.end.best is None else 100.0)
        part, last = self.points[turn], self.points[-1]
        spent = part.spent
        return Saved(
            _percent_between(spent.tokens, whole.tokens, whole.tokens, whole.token_gaps - spent.token_gaps),
            _percent_between(spent.cost_usd, whole.cost_usd, whole.cost_usd, whole.cost_gaps - spent.cost_gaps),
            _percent_between(
                spent.gpu_seconds, last.spent.gpu_seconds, whole.gpu_seconds, last.spent.gpu_gaps - spent.gpu_gaps
            ),
            None if self.end.best is None else 100 * part.score / self.end.score,
        )


NOTHING = Spent(Usage(0, 0, 0, 0), False, 0, Decimal(), 0, 0.0, 0)


class History:
    """The points of a run, each made when its turn is over of what was recorded until then.

    `refused` (candidates that failed when judged again) and `on_a_gpu` (something is judged on one) are what whoever
    has the whole run knows of its end; a run in progress is read without.
    """

    def __init__(self, workloads: Collection[str], refused: Collection[str] = (), *, on_a_gpu: bool = False) -> None:
        self.points = [Point(0, None, NOTHING)]
        self._workloads, self._refused, self._on_a_gpu = workloads, refused, on_a_gpu
        self._spent: Spent | None = None
        self._since: list[Event] = []

    def feed(self, event: Event) -> None:
        """Take the run's next event."""
        self._since.append(event)
        self._on_a_gpu = self._on_a_gpu or bool(_judged_there([event]))
        if isinstance(event, TurnClosed):
            self.points.append(self.now(event.turn))
            self._spent, self._since = self.points[-1].spent, []

    def now(self, turn: int) -> Point:
        """The run with all that it was fed, `turn` turns being over."""
        ranked = [item for item in submissions(self._since) if item.eligible(self._workloads)]
        accepted = [item for item in (self.points[-1].best, *ranked) if item and item.sha256 not in self._refused]
        # Of two that are equally fast the earlier stands.
        best = min(accepted, key=lambda item: (-(item.geomean_speedup or 0.0), item.turn), default=None)
        return Point(turn, best, _plus(self._spent, _spent(self._since, _GpuMeter(self._since, self._on_a_gpu))))


def curve(trace: Trace) -> Curve:
    """The curve of a run, also of one that is not over. A candidate that was refused when judged again is in none."""
    history = History(trace.run.workloads, trace.refused, on_a_gpu=bool(_judged_there(trace.events)))
    for event in trace.events:
        history.feed(event)
    asked = trace.totals.replies + trace.totals.lost_attempts
    end = history.now(trace.turns)
    return Curve(tuple(history.points), end if asked else Point(end.turn, end.best, NOTHING), _ended(trace.finished))


def _percent_between(one: Number | None, other: Number | None, whole: Number | None, gaps: int) -> float | None:
    """How far apart two sums are, in percent of the whole. None where there are gaps between them."""
    return None if one is None or other is None or not whole or gaps else float(100 * (other - one) / whole)


def _ended(finished: RunFinished | None) -> bool:
    return finished is not None and finished.stop_reason not in _NOT_OVER


def _spent(events: Sequence[Event], meter: _GpuMeter) -> Spent:
    sums = total(events)
    replies = [event for event in events if isinstance(event, ModelReplied)]
    uncounted = sum(None in (reply.usage.input_tokens, reply.usage.output) for reply in replies)
    unpriced = sum(reply.cost_usd is None for reply in replies)
    seconds, complete = meter.read(events)
    return Spent(
        sums.usage,
        sums.lower_bound,
        uncounted + sums.lost_attempts,
        sum_usd(reply.cost_usd for reply in replies),
        unpriced + sums.lost_attempts,
        seconds,
        int(not complete),
    )


def _plus(before: Spent | None, more: Spent) -> Spent:
    if before is None:
        return more
    counts = {
        name: _sum(getattr(before.usage, name), getattr(more.usage, name)) for name in (*BUCKETS, "unsplit_input")
    }
    return Spent(
        Usage(**counts),
        before.tokens_lower_bound or more.tokens_lower_bound,
        before.token_gaps + more.token_gaps,
        _sum(before.cost_usd, more.cost_usd),
        before.cost_gaps + more.cost_gaps,
        _sum(before.gpu_seconds, more.gpu_seconds),
        before.gpu_gaps + more.gpu_gaps,
    )


def _sum(one: Number | None, other: Number | None) -> Number | None:
    if one is None or other is None:
        return other if one is None else one
    return one + other


class _GpuMeter:
    """Reads off a turn's events how long a GPU was held. What was judged on a CPU held none.

    `on_a_gpu`: the run judges on one.
    """

    def __init__(self, events: Sequence[Event], on_a_gpu: bool) -> None:
        self._judged_there = _judged_there(events)
        self._on_a_gpu = on_a_gpu
        self._timed = {_key(event) for event in events if isinstance(event, EvaluationTook | ConfirmationTook)}
        self._tools = {
            (event.turn, event.call_id): event.name for event in events if isinstance(event, ToolCallStarted)
        }

    def read(self, events: Sequence[Event]) -> tuple[float | None, bool]:
        """The seconds (None where none of them is known), and True where they are all."""
        known, complete, selected = [0.0], True, False
        for event in events:
            match event:
                case EvaluationTook() | ConfirmationTook() if _key(event) in self._judged_there:
                    known.append(sum(event.seconds.get(step, 0.0) for step in HOLDS_THE_GPU))
                case ToolFinished(name="profile" | "sanitize", executed=True) if self._held(event):
                    known.append(_held_s(event))
                case VerdictReached() | ConfirmationReached() if _key(event) in self._judged_there - self._timed:
                    complete = False
                case ToolCallInterrupted():
                    name = self._tools.get((event.turn, event.call_id))
                    complete &= name not in _ON_A_GPU or not self._on_a_gpu
                case SelectionMade():
                    selected = True
                case RunResumed():  # a confirmation may have been in flight
                    complete &= not (selected and self._on_a_gpu)
        return (sum(known) if complete or any(known) else None), complete

    def _held(self, event: ToolFinished) -> bool:
        return self._on_a_gpu or event.data.get("outcome") in ("profiled", "sanitized")


def _judged_there(events: Iterable[Event]) -> set[tuple[object, ...]]:
    """What was judged elsewhere than on a CPU."""
    verdicts = (event for event in events if isinstance(event, VerdictReached | ConfirmationReached))
    return {_key(event) for event in verdicts if event.verdict.environment.device != "cpu"}


def _held_s(event: ToolFinished) -> float:
    held_s = event.seconds - queued_s(event)
    if held_s < 0:
        raise ValueError(f"{event.name} of turn {event.turn} waited for the GPU longer than it took")
    return held_s


def _key(event: VerdictReached | EvaluationTook | ConfirmationReached | ConfirmationTook) -> tuple[object, ...]:
    if isinstance(event, VerdictReached | EvaluationTook):
        return event.turn, event.call_id, event.sha256
    return event.sha256, event.attempt
