"""Points of runs for the tests of stopping policies."""

from __future__ import annotations

from collections.abc import Sequence

from d2k_agent.models import Usage
from d2k_agent.records import Event, History, Point, Submission, Trace
from d2k_agent.study import BestFloors, FloorsFor
from tests.reports.curved import COST_USD, USAGE, Outcome, a_turn, record
from tests.reports.events import stamped


def points_of(trace: Trace) -> list[Point]:
    """What was known after each turn, the beginning included."""
    history = History(trace.run.workloads)
    for event in trace.events:
        history.feed(event)
    return history.points


def points(*outcomes: Outcome, usage: Usage = USAGE, cost_usd: float | None = COST_USD) -> list[Point]:
    """Those of a run on an H200, a turn an outcome, each turn of that usage and cost."""
    return points_of(
        trace_of([e for n, outcome in enumerate(outcomes, 1) for e in a_turn(n, outcome, usage, cost_usd)])
    )


def trace_of(events: Sequence[Event]) -> Trace:
    """A run of these events."""
    return Trace(record(), tuple(stamped(*events)))


def floors(**ms: float) -> FloorsFor:
    """Those of a task, however a submission was measured."""
    return lambda submission: BestFloors(ms, "a test")


def no_floors(submission: Submission) -> BestFloors | None:
    """Nobody knows a floor."""
    return None
