"""350 turns through LiteLLM over HTTP: a scripted policy answers, everything on our side is the product's own."""

from __future__ import annotations

import itertools
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from d2k_agent.agent import StopReason
from d2k_agent.config import ModelOptions
from d2k_agent.models import PriceRow, Rates
from d2k_agent.models.litellm_client import LiteLLMModel
from d2k_agent.models.retry import RetryPolicy
from d2k_agent.records import read_trace
from tests.agent.scene import drive, new_run
from tests.models.provider import serving

TURNS = 350
PRICE = PriceRow("m", "test", None, Rates(Decimal(5), Decimal(25), Decimal("6.25"), Decimal(10), Decimal("0.5")))
BUSY = {"status": 503, "body": {"error": {"message": "overloaded"}}}
BEST = 211


def answer(turn: int) -> dict[str, Any]:
    """The policy's reply at a turn: every seventh time it submits what it wrote, the best at turn BEST."""
    speedup = 3.0 if turn == BEST else 1 + turn % 100 / 100
    calls = [("write", {"path": "solution.py", "content": f"# speedup {speedup}\n"})]
    calls += [("submit", {})] if turn % 7 == 1 else [("bash", {"command": f"echo {turn}"})]
    message = {
        "role": "assistant",
        "content": f"Turn {turn}.",
        "reasoning_content": f"I think of turn {turn}.",
        "tool_calls": [
            {"id": f"call_{turn}_{at}", "type": "function", "function": {"name": name, "arguments": json.dumps(what)}}
            for at, (name, what) in enumerate(calls)
        ],
    }
    cached = 300 * (turn - 1)
    usage = {
        "prompt_tokens": cached + 300,
        "completion_tokens": 40,
        "total_tokens": cached + 340,
        "prompt_tokens_details": {"cached_tokens": cached},
        "completion_tokens_details": {"reasoning_tokens": 20},
    }
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    body = {"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage}
    return {"status": 200, "body": body}


@pytest.mark.slow
def test_350_turns_keep_their_prefix_their_count_and_their_cost(tmp_path: Path) -> None:
    assert BEST % 7 == 1
    steps = [answer(turn) for turn in range(1, TURNS + 1)]
    steps[100:100] = [BUSY, BUSY]  # two refusals in turn 101
    run = new_run(tmp_path / "r", turns=TURNS)
    with serving(steps) as provider:
        options = ModelOptions(api_base=f"{provider.url}/v1", timeout_s=60.0)
        policy = RetryPolicy(attempts=4)
        model = LiteLLMModel("openai/m", options, price=PRICE, policy=policy, wait=lambda seconds: None)
        outcome = drive(run, model)

    trace = read_trace(run.path)
    assert outcome.stop_reason is StopReason.TURN_LIMIT
    assert (trace.turns, trace.totals.replies, len(provider.seen)) == (TURNS, TURNS, TURNS + 2)
    assert outcome.selection is not None and outcome.selection.turn == BEST
    assert len(trace.submissions) == TURNS / 7

    usage = trace.totals.usage
    assert (usage.uncached_input, usage.cache_write, usage.cache_read, usage.output, usage.reasoning) == (
        300 * TURNS,
        0,
        300 * TURNS * (TURNS - 1) // 2,
        40 * TURNS,
        20 * TURNS,
    )
    millions = Decimal(1_000_000)
    exact = (300 * TURNS * 5 + 300 * TURNS * (TURNS - 1) // 2 * Decimal("0.5") + 40 * TURNS * 25) / millions
    assert trace.totals.cost_usd == float(exact)
    assert not trace.totals.lower_bound

    messages = [body["messages"] for body in provider.bodies]
    assert all(later[: len(earlier)] == earlier for earlier, later in itertools.pairwise(messages))
    assert len({json.dumps(body["tools"]) for body in provider.bodies}) == 1
    assert messages[-1][2]["reasoning_content"] == "I think of turn 1.", "reasoning goes back to the end"
