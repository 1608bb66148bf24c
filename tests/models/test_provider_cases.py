"""Answers that providers really gave, played over HTTP: what they cost, and what is kept and sent back."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import Any

import pytest

from d2k_agent.models.usage import Usage

Case = Callable[[str], dict[str, Any]]
Client = Callable[..., Any]


def calls_of(message: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [(c["id"], c["function"]["name"], c["function"]["arguments"]) for c in message.get("tool_calls", [])]


@pytest.mark.parametrize("name", ["B01a", "B01e", "B04a"])
def test_buckets_and_cost(name: str, case: Case, client: Client, priced: str) -> None:
    played = case(name)
    reply = client(played, priced).ask()
    expected = played["expect"]
    for bucket in {"uncached_input", "cache_write", "cache_read", "output", "reasoning"} & set(expected):
        assert getattr(reply.usage, bucket) == expected[bucket]
    assert reply.usage.known
    assert reply.cost_usd == pytest.approx(expected["cost_usd"], abs=1e-9)


def test_buckets_and_cost_where_the_prompt_excludes_what_was_cached(case: Case, client: Client) -> None:
    reply = client(case("B01b"), "anthropic/claude-opus-4-8").ask()
    assert reply.usage == Usage(uncached_input=12, cache_write=4_000, cache_read=9_000, output=500, reasoning=None)
    assert reply.cost_usd == pytest.approx(0.04206, abs=1e-9)


def test_an_unmapped_model_has_tokens_and_no_cost(case: Case, client: Client) -> None:
    reply = client(case("B03"), "openai/d2k-brand-new-2027").ask()
    assert reply.usage == Usage(1_000, 0, 9_000, 500)
    assert reply.cost_usd is None


def test_missing_usage_is_unknown_and_so_is_the_cost_of_a_priced_model(case: Case, client: Client, priced: str) -> None:
    step = case("B01a")["responses"][0]
    del step["body"]["usage"]
    reply = client([step], priced).ask()
    assert reply.usage == Usage.unknown()
    assert reply.cost_usd is None


def test_reasoning_beside_the_completion_is_paid_for(case: Case, client: Client, priced: str) -> None:
    step = case("B04a")["responses"][0]
    step["body"]["usage"].update(completion_tokens=100, total_tokens=1_900)
    reply = client([step], priced).ask()
    assert reply.usage.output == 900
    assert reply.cost_usd == pytest.approx(0.0275, abs=1e-9)


def test_empty_arguments_mean_none(case: Case, client: Client) -> None:
    message = client(case("B05a")).ask().message
    assert [(name, json.loads(arguments)) for _, name, arguments in calls_of(message)] == [("submit", {})]


def test_missing_and_repeated_ids_become_five_distinct_ones_that_go_back(case: Case, client: Client) -> None:
    asked = client(case("B06b"))
    message = asked.ask().message
    ids = [call_id for call_id, *_ in calls_of(message)]
    commands = [json.loads(arguments)["command"] for *_, arguments in calls_of(message)]
    assert commands == ["echo one", "echo two", "echo three", "echo four", "echo five"]
    assert len(set(ids)) == 5
    assert all(ids)

    results = [{"role": "tool", "tool_call_id": call_id, "content": "ok"} for call_id in ids]
    asked.ask(message, *results)
    sent = asked.provider.bodies[1]["messages"]
    assert [call["id"] for call in sent[1]["tool_calls"]] == ids
    assert [entry["tool_call_id"] for entry in sent[2:]] == ids


def test_an_id_used_in_an_earlier_turn_is_replaced(case: Case, client: Client) -> None:
    step = case("B05a")["responses"][0]
    asked = client([step])
    first = asked.ask().message
    second = asked.ask(first, {"role": "tool", "tool_call_id": "call_1", "content": "ok"}).message
    assert calls_of(first)[0][0] == "call_1"
    assert calls_of(second)[0][0] not in ("", "call_1")


def test_a_call_cut_by_the_output_limit_is_kept_as_it_came_and_sent_back_readable(case: Case, client: Client) -> None:
    played = case("B07a")
    asked = client(played)
    reply = asked.ask()
    cut = played["responses"][0]["body"]["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"]
    assert reply.finish_reason == "length"
    assert calls_of(reply.message) == [("call_1", "write", cut)]

    asked.ask(reply.message, {"role": "tool", "tool_call_id": "call_1", "content": "the output limit cut the call"})
    sent = asked.provider.bodies[1]["messages"]
    assert json.loads(sent[1]["tool_calls"][0]["function"]["arguments"]) == {"unparsed_arguments": cut}
    assert "output limit cut the call" in sent[2]["content"]


def test_replies_without_calls_are_messages_that_can_be_sent_back(case: Case, client: Client) -> None:
    asked = client(case("B08"))
    history: list[dict[str, Any]] = []
    for _ in range(7):
        reply = asked.ask(*history)
        assert reply.message["role"] == "assistant"
        assert isinstance(reply.message["content"], str)
        assert "tool_calls" not in reply.message
        assert reply.usage.output is not None
        history += [reply.message, {"role": "user", "content": "call a tool"}]
    replies = [message for message in history if message["role"] == "assistant"]
    assert replies[0]["content"] == "I will now optimise the kernel."
    assert replies[4]["refusal"] == "I can't help with that."
    asked.ask(*history)
    assert all(message["content"] for message in asked.provider.bodies[-1]["messages"])


def test_request_n_is_a_prefix_of_request_n_plus_1(case: Case, client: Client) -> None:
    asked = client([*case("B07a")["responses"], *case("B06b")["responses"], *case("B08")["responses"]])
    history: list[dict[str, Any]] = []
    for _ in range(11):
        message = asked.ask(*history).message
        results = [{"role": "tool", "tool_call_id": call_id, "content": "ok"} for call_id, *_ in calls_of(message)]
        history += [message, *(results or [{"role": "user", "content": "call a tool"}])]
    texts = [json.dumps(body["messages"])[:-1] for body in asked.provider.bodies]
    assert all(later.startswith(earlier) for earlier, later in itertools.pairwise(texts))
    assert len({json.dumps(body["tools"]) for body in asked.provider.bodies}) == 1


def test_the_parameters_on_record_are_those_that_were_sent(case: Case, client: Client) -> None:
    asked = client(case("B01a"), max_tokens=4_096, temperature=0.3, reasoning_effort="low")
    reply = asked.ask()
    sent = asked.provider.bodies[0]
    assert reply.parameters == {key: value for key, value in sent.items() if key not in ("messages", "tools")}
    assert (sent["max_tokens"], sent["temperature"], sent["reasoning_effort"]) == (4_096, 0.3, "low")
    assert "stream" not in sent
