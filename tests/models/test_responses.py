"""A model of the Responses style: its reasoning goes back encrypted, its usage fills the same buckets."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from d2k_agent.models.usage import Usage
from tests.models.provider import SCHEMAS

Client = Callable[..., Any]

MODEL = "openai/responses/d2k-thinker-1"
REASONING = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [{"type": "summary_text", "text": "read first"}],
    "encrypted_content": "ENC-123==",
}
USAGE = {
    "input_tokens": 1000,
    "input_tokens_details": {"cached_tokens": 768},
    "output_tokens": 50,
    "output_tokens_details": {"reasoning_tokens": 20},
    "total_tokens": 1050,
}


def call(number: int) -> dict[str, Any]:
    arguments = json.dumps({"path": f"{number}.py"})
    ids = {"id": f"fc_{number}", "call_id": f"call_{number}"}
    return {"type": "function_call", **ids, "name": "read", "arguments": arguments, "status": "completed"}


def answer(*output: dict[str, Any]) -> dict[str, Any]:
    body = {"id": "resp_1", "object": "response", "created_at": 1, "status": "completed", "model": "d2k-test-1"}
    more = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "error": None, "incomplete_details": None}
    return {"status": 200, "body": {**body, **more, "output": list(output), "usage": USAGE}}


def test_calls_usage_and_what_is_asked_for(client: Client) -> None:
    asked = client([answer(REASONING, call(1), call(2))], MODEL, max_tokens=500, reasoning_effort="low")
    reply = asked.ask()
    (request,) = asked.provider.seen
    assert request["path"].endswith("/responses")
    assert reply.usage == Usage(uncached_input=232, cache_write=0, cache_read=768, output=50, reasoning=20)
    assert [entry["function"]["arguments"] for entry in reply.message["tool_calls"]] == [
        '{"path": "1.py"}',
        '{"path": "2.py"}',
    ]
    expected = {"store": False, "include": ["reasoning.encrypted_content"], "reasoning": {"effort": "low"}}
    assert {name: reply.parameters[name] for name in expected} == expected
    assert reply.parameters["max_output_tokens"] == 500
    assert reply.not_as_wished == ()


def test_reasoning_and_results_go_back_in_order_after_a_resume(client: Client) -> None:
    asked = client([answer(REASONING, call(1), call(2)), answer(call(3))], MODEL)
    kept = json.loads(json.dumps(asked.ask().message))
    ids = [entry["id"] for entry in kept["tool_calls"]]
    results = [{"role": "tool", "tool_call_id": call_id, "content": f"text {call_id}"} for call_id in ids]
    asked.model.complete([{"role": "user", "content": "go"}, kept, *results], SCHEMAS)

    sent = asked.provider.bodies[1]["input"]
    assert [item["type"] for item in sent][1:] == [
        "reasoning",
        "function_call",
        "function_call",
        "function_call_output",
        "function_call_output",
    ]
    assert sent[1]["encrypted_content"] == "ENC-123=="
    assert [item["call_id"] for item in sent[2:]] == [*ids, *ids]
