"""Runs on a GPU whose score moves from turn to turn, for the tests of curves and of what is drawn from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

from d2k_agent.config import RunConfig
from d2k_agent.contract import Environment, VerdictStatus, Violation
from d2k_agent.models import PriceRow, Rates, Usage
from d2k_agent.records import (
    Choice,
    ConversationStarted,
    EvaluationTook,
    Event,
    Measured,
    ModelCallStarted,
    RunFinished,
    RunRecord,
    SelectionMade,
    StopReason,
    Submitted,
    Times,
    ToolCallStarted,
    ToolFinished,
    Trace,
    TurnClosed,
    VerdictReached,
    VerdictRecord,
    cut,
)
from tests.reports.events import ENVIRONMENT, reply, stamped
from tests.reports.measured import H200, timed

USAGE = Usage(uncached_input=100, cache_write=2_000, cache_read=30_000, output=400)
PRICE = PriceRow(
    "some/model",
    "https://p.example/prices",
    "2026-09-21",
    Rates(Decimal(5), Decimal(25), Decimal("6.25"), None, Decimal("0.5")),
)
COST_USD = 0.038
"""What USAGE costs at PRICE."""
STEPS = {"static": 1.0, "compile": 2.0, "correctness": 4.0, "timing.timed": 8.0, "timing": 16.0}
GPU_SECONDS = 20.0
"""Those of STEPS in which the GPU is held."""
Outcome = float | VerdictStatus | None
"""What a turn hands in: a candidate of that speedup, one that fails so, or none."""


def sha_of(turn: int) -> str:
    """The candidate of a turn."""
    return f"{turn:064x}"


def found(outcome: float | VerdictStatus, sha256: str, environment: Environment) -> tuple[VerdictRecord, Times | None]:
    """The two records of a verdict."""
    if isinstance(outcome, float):
        verdict = replace(timed(), candidate_sha256=sha256, geomean_speedup=outcome, environment=environment)
        parts = cut(verdict)
        return parts.verdict, parts.times
    broken = (Violation("glue", "no torch.matmul", 3),) if outcome is VerdictStatus.RULE_VIOLATION else ()
    record = VerdictRecord(
        status=outcome, candidate_sha256=sha256, message="", environment=environment, violations=broken
    )
    return record, None


def a_turn(
    turn: int, outcome: Outcome, usage: Usage = USAGE, cost_usd: float | None = COST_USD, on: Environment = H200
) -> list[Event]:
    """One turn that writes and, where it has an outcome, hands in."""
    tools = ("write",) if outcome is None else ("write", "submit")
    events: list[Event] = [ModelCallStarted(call=turn, turn=turn), reply(turn, *tools, usage=usage, cost_usd=cost_usd)]
    for index, name in enumerate(tools):
        call = {"turn": turn, "index": index, "call_id": f"c{turn}{index}", "name": name}
        events.append(ToolCallStarted(**call))
        if name == "submit" and outcome is not None:
            key = {"turn": turn, "call_id": f"c{turn}{index}", "sha256": sha_of(turn)}
            verdict, times = found(outcome, sha_of(turn), on)
            events += [Submitted(**key), VerdictReached(**key, verdict=verdict)]
            events += [Measured(**key, times=times)] if times is not None else []
            events.append(EvaluationTook(**key, seconds=STEPS))
        events.append(ToolFinished(**call, status="ok", text=f"{name} done", seconds=1.0))
    return [*events, TurnClosed(turn=turn, calls=len(tools), executed=len(tools))]


def turns_of(outcomes: Sequence[Outcome], on: Environment = H200) -> list[Event]:
    """The beginning of a run and its turns."""
    opening = ConversationStarted(
        messages=[{"role": "system", "content": "do it"}],
        tools=[{"type": "function", "function": {"name": name}} for name in ("write", "submit")],
    )
    return [opening, *(event for turn, outcome in enumerate(outcomes, 1) for event in a_turn(turn, outcome, on=on))]


def ending(outcomes: Sequence[Outcome], reason: StopReason = StopReason.FINISHED_BY_MODEL) -> list[Event]:
    """The selection of the fastest, and the end."""
    speedups = [(outcome, -turn) for turn, outcome in enumerate(outcomes, 1) if isinstance(outcome, float)]
    best, turn = max(speedups, default=(None, 0))
    chosen = None
    if best is not None:
        chosen = Choice(sha256=sha_of(-turn), turn=-turn, call_id=f"c{-turn}1", geomean_speedup=best)
    return [
        SelectionMade(selection=chosen, provisional=None, why="the fastest"),
        RunFinished(stop_reason=reason, turns=len(outcomes), selection=chosen, provisional=None),
    ]


def record(name: str = "r", **config: object) -> RunRecord:
    """The record of a run at known prices; `config` are fields of RunConfig."""
    return RunRecord(
        run_id=name,
        created=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        config=RunConfig(**{"task": "muon", "model": "some/model", "levels": ("L1",), **config}),  # type: ignore[arg-type]
        task_slug="muon",
        task_digest="t",
        workloads=("small", "large"),
        baseline_sha256="0123456789abcdef" * 4,
        price=PRICE,
        isolation={"kind": "landlock"},
        versions={"d2k-agent": "0.1.0", "python": "3.11.7"},
    )


def a_curved_run(*outcomes: Outcome, reason: StopReason = StopReason.FINISHED_BY_MODEL) -> Trace:
    """A whole run on an H200, a turn an outcome."""
    return Trace(record(), tuple(stamped(*turns_of(outcomes), *ending(outcomes, reason))))


def on_a_cpu(*outcomes: Outcome) -> Trace:
    """The same where nothing is measured."""
    return Trace(record(), tuple(stamped(*turns_of(outcomes, ENVIRONMENT), *ending(()))))
