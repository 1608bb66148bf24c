"""Events as a run writes them, for the tests of what is printed about them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from d2k_agent.contract import Environment, VerdictStatus, Violation
from d2k_agent.models import Usage
from d2k_agent.records import (
    Choice,
    ConversationStarted,
    Event,
    ModelCallStarted,
    ModelReplied,
    RunFinished,
    SelectionMade,
    StopReason,
    Submitted,
    ToolCallStarted,
    ToolFinished,
    TurnClosed,
    VerdictReached,
)
from d2k_agent.records.verdicts import VerdictRecord

SHA = "a" * 64
BEGUN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
KNOWN = Usage(uncached_input=10, cache_write=200, cache_read=3000, output=40)
ENVIRONMENT = Environment(
    machine="m",
    device="cpu",
    device_name="CPU",
    target="b200",
    isolation="landlock",
    python="3.11",
    torch="2.13",
    triton="3.7",
    evaluator_digest="e",
    task_digest="t",
)


def stamped(*events: Event) -> list[Event]:
    """The events numbered, a second apart."""
    return [
        event.model_copy(update={"seq": number, "time": BEGUN + timedelta(seconds=number)})
        for number, event in enumerate(events, start=1)
    ]


def reply(turn: int, *tools: str, usage: Usage | None = None, cost_usd: float | None = None) -> ModelReplied:
    calls = [
        {"id": f"c{turn}{n}", "type": "function", "function": {"name": name, "arguments": '{"path": "solution.py"}'}}
        for n, name in enumerate(tools)
    ]
    message = {"role": "assistant", "content": f"thoughts of turn {turn}", "tool_calls": calls}
    return ModelReplied(
        call=turn,
        turn=turn,
        message=message,
        finish_reason="tool_calls",
        usage=usage or Usage.unknown(),
        cost_usd=cost_usd,
        seconds=1.5,
    )


def verdict(status: VerdictStatus) -> VerdictRecord:
    broken = (Violation("glue", "no torch.matmul", 3),) if status is VerdictStatus.RULE_VIOLATION else ()
    return VerdictRecord(status=status, candidate_sha256=SHA, message="", environment=ENVIRONMENT, violations=broken)


def a_turn(turn: int, status: VerdictStatus, usage: Usage | None = None, cost_usd: float | None = None) -> list[Event]:
    """One turn that writes and hands in a candidate."""
    key = {"turn": turn, "call_id": f"c{turn}1", "sha256": SHA}
    return [
        ModelCallStarted(call=turn, turn=turn),
        reply(turn, "write", "submit", usage=usage, cost_usd=cost_usd),
        ToolCallStarted(turn=turn, index=0, call_id=f"c{turn}0", name="write"),
        ToolFinished(turn=turn, index=0, call_id=f"c{turn}0", name="write", status="ok", text="written", seconds=0.1),
        ToolCallStarted(turn=turn, index=1, call_id=f"c{turn}1", name="submit"),
        Submitted(**key),
        VerdictReached(**key, verdict=verdict(status)),
        ToolFinished(
            turn=turn, index=1, call_id=f"c{turn}1", name="submit", status="ok", text=f"Status: {status}", seconds=2.0
        ),
        TurnClosed(turn=turn, calls=2, executed=2),
    ]


def a_run(usage: Usage | None = None, cost_usd: float | None = None) -> list[Event]:
    """Two turns, the second one correct, and the end."""
    provisional = Choice(sha256=SHA, turn=2, call_id="c21")
    tools = [{"type": "function", "function": {"name": name}} for name in ("write", "submit")]
    return stamped(
        ConversationStarted(messages=[{"role": "system", "content": "do it"}], tools=tools),
        *a_turn(1, VerdictStatus.INCORRECT, usage, cost_usd),
        *a_turn(2, VerdictStatus.UNTIMED, usage, cost_usd),
        SelectionMade(selection=None, provisional=provisional, why="nothing was measured on this machine"),
        RunFinished(stop_reason=StopReason.TURN_LIMIT, turns=2, selection=None, provisional=provisional),
    )
