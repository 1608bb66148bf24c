"""A provider that caches where it is told to and signs its thinking: both survive the loop."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from d2k_agent.agent.replies import repair
from d2k_agent.config import ModelOptions
from d2k_agent.models import Usage
from d2k_agent.models.caching import cache_points
from d2k_agent.models.litellm_client import LiteLLMModel
from tests.models.provider import KEY, serving

Client = Callable[..., Any]

MODEL = "anthropic/claude-opus-4-8"
THINKING = {"type": "thinking", "thinking": "read first", "signature": "SIG-123=="}
USAGE = {"input_tokens": 12, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 9, "output_tokens": 50}


def answer(*content: dict[str, Any], stop: str = "tool_use") -> dict[str, Any]:
    body = {"id": "msg", "type": "message", "role": "assistant", "model": "claude-opus-4-8", "content": list(content)}
    return {"status": 200, "body": {**body, "stop_reason": stop, "stop_sequence": None, "usage": USAGE}}


def use(call_id: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": "read", "input": {"path": "solution.py"}}


def result(call_id: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": f"text of {call_id}"}


def test_thinking_blocks_survive_json_and_go_back_with_their_signature(client: Client) -> None:
    asked = client([answer(THINKING, {"type": "text", "text": "ok"}, use("toolu_1"))], MODEL)
    reply = asked.ask()
    kept = json.loads(json.dumps(reply.message))
    assert kept == reply.message

    asked.ask(kept, result("toolu_1"))
    blocks = asked.provider.bodies[1]["messages"][1]["content"]
    assert [block["type"] for block in blocks] == ["thinking", "text", "tool_use"]
    assert blocks[0] == THINKING
    assert blocks[2]["input"] == {"path": "solution.py"}


def test_reasoning_that_the_provider_does_not_count_is_unknown(client: Client) -> None:
    usage = client([answer(THINKING, use("toolu_1"))], MODEL).ask().usage
    assert usage.reasoning is None
    assert usage.output == 50


def marked(body: dict[str, Any]) -> list[str]:
    """The texts of the blocks that end a cached prefix, in order."""
    blocks = [*body.get("system", ()), *(block for message in body["messages"] for block in message["content"])]
    return [str(block.get("text") or block.get("content")) for block in blocks if "cache_control" in block]


def test_breakpoints_stand_after_system_opening_and_the_last_request_and_at_the_end(client: Client) -> None:
    asked = client([answer(use("toolu_1"), use("toolu_2")), answer(use("toolu_3"))], MODEL)
    system = {"role": "system", "content": "rules"}
    start = [system, {"role": "user", "content": "go"}]
    first = asked.model.complete(start, []).message
    second = [*start, first, result("toolu_1"), result("toolu_2")]
    reply = asked.model.complete(second, []).message
    asked.model.complete([*second, reply, result("toolu_3")], [])

    assert marked(asked.provider.bodies[0]) == ["rules", "go"]
    assert marked(asked.provider.bodies[1]) == ["rules", "go", "text of toolu_2"]
    assert marked(asked.provider.bodies[2]) == ["rules", "go", "text of toolu_2", "text of toolu_3"]
    for body in asked.provider.bodies:
        assert len(marked(body)) <= 4


def lifetimes(body: dict[str, Any]) -> set[str]:
    """How long the marked prefixes of a request are to live."""
    blocks = [*body.get("system", ()), *(block for message in body["messages"] for block in message["content"])]
    return {block["cache_control"].get("ttl", "5m") for block in blocks if "cache_control" in block}


def test_after_slow_turns_entries_live_an_hour_and_the_arithmetic_is_told() -> None:
    moments = iter([0.0, 1.0, 400.0, 401.0, 800.0, 801.0])
    notices: list[str] = []
    usage = {"input_tokens": 1, "cache_creation_input_tokens": 1_000, "cache_read_input_tokens": 50_000}
    step = answer(use("toolu_1"))
    step["body"]["usage"] = {**usage, "output_tokens": 5}
    with serving([step]) as provider:
        model = LiteLLMModel(
            MODEL,
            ModelOptions(api_base=provider.url),
            {"ANTHROPIC_API_KEY": KEY},
            clock=lambda: next(moments),
            notice=notices.append,
        )
        start = [{"role": "system", "content": "rules"}, {"role": "user", "content": "go"}]
        first = model.complete(start, [])
        second = [*start, first.message, result("toolu_1")]
        plans = [first.cache, *(model.complete(second, []).cache for _ in range(2))]
    assert [lifetimes(body) for body in provider.bodies] == [{"5m"}, {"1h"}, {"1h"}]
    assert [plan and plan.ttl_s for plan in plans] == [300, 3600, 3600]
    assert plans[1] is not None and plans[1].gap_s == 400.0
    (told,) = notices
    assert told.endswith(plans[1].why) and "1 h: the last 1 gaps between requests have a median of 400 s" in told


def test_the_conversation_is_not_changed_by_asking(client: Client) -> None:
    asked = client([answer(use("toolu_1"))], MODEL)
    messages = [{"role": "system", "content": "rules"}, {"role": "user", "content": "go"}]
    before = json.dumps(messages)
    asked.model.complete(messages, [])
    assert json.dumps(messages) == before


def test_a_model_that_caches_by_itself_gets_no_marks(client: Client) -> None:
    ok = {"id": "x", "object": "chat.completion", "created": 1, "model": "m", "usage": None}
    choice = {"index": 0, "message": {"role": "assistant", "content": "ok"}, "finish_reason": "stop"}
    asked = client([{"status": 200, "body": {**ok, "choices": [choice]}}])
    asked.ask()
    assert "cache_control" not in json.dumps(asked.provider.bodies)


def test_broken_calls_and_empty_replies_can_be_read_back_once_the_loop_repaired_them(client: Client) -> None:
    asked = client([answer(use("toolu_9"))], MODEL)
    call = {"id": "t1", "type": "function", "function": {"name": "read", "arguments": '{"path": "a'}}
    broken = repair({"role": "assistant", "content": "", "tool_calls": [call]}, "stop", 1, ()).message
    empty = repair({"role": "assistant", "content": ""}, "stop", 2, ()).message
    asked.ask(broken, result("t1"), empty, {"role": "user", "content": "call a tool"})
    sent = asked.provider.bodies[0]["messages"]
    (block,) = sent[1]["content"]
    assert (block["type"], block["id"]) == ("tool_use", "t1")
    assert '{"path": "a' in block["input"].values()
    assert [message["role"] for message in sent] == ["user", "assistant", "user", "assistant", "user"]


def test_cache_points_without_a_system_message_and_before_any_reply() -> None:
    user, reply = {"role": "user", "content": "go"}, {"role": "assistant", "content": "ok"}
    assert cache_points([user]) == [0]
    assert cache_points([user, reply, user]) == [0, 2]
    assert cache_points([user, reply, user, reply, user, user]) == [0, 2, 5]


def test_the_first_request_after_a_resume_lives_by_what_was_measured_before() -> None:
    with serving([answer(use("toolu_1"))]) as provider:
        options = ModelOptions(api_base=provider.url)
        usages = [Usage(0, 1_000, 50_000, 5)]
        model = LiteLLMModel(MODEL, options, {"ANTHROPIC_API_KEY": KEY}, gaps_s=[400.0] * 5, usages=usages)
        reply = model.complete([{"role": "system", "content": "rules"}, {"role": "user", "content": "go"}], ())
    assert reply.cache is not None and reply.cache.ttl_s == 3600
    assert json.dumps(provider.bodies[0]).count('"ttl": "1h"') == 2
