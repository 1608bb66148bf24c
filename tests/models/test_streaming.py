"""Answers that come in pieces: whole, cut off, and without a word on usage."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from d2k_agent.models.quirks import Quirks
from d2k_agent.models.usage import Usage

Case = Callable[[str], dict[str, Any]]
Client = Callable[..., Any]

STREAM = Quirks(stream=True)
CLAUDE = Quirks(stream=True, counts_reasoning=False)


def event(kind: str, **data: Any) -> dict[str, Any]:
    return {"event": kind, "data": {"type": kind, **data}}


USAGE = {"input_tokens": 12, "cache_creation_input_tokens": 4000, "cache_read_input_tokens": 9000, "output_tokens": 1}
MESSAGE = {"id": "m", "type": "message", "role": "assistant", "model": "claude-opus-4-8", "content": [], "usage": USAGE}
PIECES = [
    event("message_start", message=MESSAGE),
    event("content_block_start", index=0, content_block={"type": "thinking", "thinking": "", "signature": ""}),
    event("content_block_delta", index=0, delta={"type": "thinking_delta", "thinking": "read first"}),
    event("content_block_delta", index=0, delta={"type": "signature_delta", "signature": "SIG-123=="}),
    event("content_block_stop", index=0),
    event(
        "content_block_start", index=1, content_block={"type": "tool_use", "id": "toolu_1", "name": "read", "input": {}}
    ),
    event("content_block_delta", index=1, delta={"type": "input_json_delta", "partial_json": '{"path": '}),
    event("content_block_delta", index=1, delta={"type": "input_json_delta", "partial_json": '"solution.py"}'}),
    event("content_block_stop", index=1),
    event("message_delta", delta={"stop_reason": "tool_use", "stop_sequence": None}, usage={"output_tokens": 500}),
    event("message_stop"),
]


def test_usage_in_the_last_piece_with_a_choice_is_kept(case: Case, client: Client, priced: str) -> None:
    played = case("B02a")
    asked = client(played, priced, own_server=False, quirks=STREAM)
    reply = asked.ask()
    expected = played["expect"]
    assert reply.message["content"] == "done"
    assert reply.usage == Usage(expected["uncached_input"], 0, expected["cache_read"], expected["output"], reasoning=0)
    assert reply.cost_usd == pytest.approx(expected["cost_usd"], abs=1e-9)
    assert asked.provider.bodies[0]["stream_options"] == {"include_usage": True}


def test_a_stream_without_usage_has_none_and_no_estimate_in_its_place(case: Case, client: Client, priced: str) -> None:
    reply = client(case("B02b"), priced, own_server=False, quirks=STREAM).ask()
    assert reply.message["content"] == "done"
    assert reply.usage == Usage.unknown()
    assert reply.cost_usd is None


def test_usage_in_a_piece_of_its_own_behind_the_last(case: Case, client: Client) -> None:
    (step,) = case("B02b")["responses"]
    usage = {
        "prompt_tokens": 100,
        "completion_tokens": 8,
        "total_tokens": 108,
        "prompt_tokens_details": {"cached_tokens": 64},
    }
    step["sse"].insert(-1, {**step["sse"][-2], "choices": [], "usage": usage})
    assert client([step], quirks=STREAM).ask().usage == Usage(36, 0, 64, 8, reasoning=0)


@pytest.mark.parametrize("pieces", [1, 2])
def test_a_stream_that_breaks_off_is_asked_again_and_its_usage_is_unknown(
    pieces: int, case: Case, client: Client
) -> None:
    (whole,) = case("B02a")["responses"]
    asked = client([{**whole, "cut_after": pieces}, whole], quirks=STREAM)
    reply = asked.ask()
    assert reply.message["content"] == "done"
    assert (reply.attempts, reply.unknown_attempts) == (2, 1)
    assert reply.usage.output == 8


def test_a_stream_of_blocks_keeps_thinking_its_signature_calls_and_buckets(client: Client) -> None:
    asked = client([{"sse": PIECES}], "anthropic/claude-opus-4-8", own_server=False, quirks=CLAUDE)
    reply = asked.ask()
    assert reply.message["thinking_blocks"] == [
        {"type": "thinking", "thinking": "read first", "signature": "SIG-123=="}
    ]
    (call,) = reply.message["tool_calls"]
    assert (call["id"], call["function"]["arguments"]) == ("toolu_1", '{"path": "solution.py"}')
    assert reply.finish_reason == "tool_calls"
    assert reply.usage == Usage(12, 4000, 9000, 500)
    assert reply.cost_usd == pytest.approx(0.04206, abs=1e-9)


def test_a_stream_of_blocks_that_breaks_off_executes_nothing_of_it(client: Client) -> None:
    asked = client([{"sse": PIECES, "cut_after": 8}, {"sse": PIECES}], "anthropic/claude-opus-4-8", quirks=CLAUDE)
    reply = asked.ask()
    assert (reply.attempts, reply.unknown_attempts) == (2, 1)
    assert len(reply.message["tool_calls"]) == 1
