"""Answers that providers really gave, played over HTTP: what they cost, and what is kept and sent back."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import Any

import pytest

from d2k_agent.agent.replies import RepairedReply, repair
from d2k_agent.models.usage import Usage

Case = Callable[[str], dict[str, Any]]
Client = Callable[..., Any]


def calls_of(message: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [(c["id"], c["function"]["name"], c["function"]["arguments"]) for c in message.get("tool_calls", [])]


@pytest.mark.parametrize("name", ["B01a", "B01e", "B04a"])
def test_buckets_and_cost(name: str, case: Case, client: Client, priced: str) -> None:
    played = case(name)
    reply = client(played, priced, own_server=False).ask()
    expected = played["expect"]
    for bucket in {"uncached_input", "cache_write", "cache_read", "output", "reasoning"} & set(expected):
        assert getattr(reply.usage, bucket) == expected[bucket]
    assert reply.usage.known is (name != "B04a"), "B04a says nothing of a cache"
    assert reply.cost_usd == pytest.approx(expected["cost_usd"], abs=1e-9)


def test_buckets_and_cost_where_the_prompt_excludes_what_was_cached(case: Case, client: Client) -> None:
    reply = client(case("B01b"), "anthropic/claude-opus-4-8", own_server=False).ask()
    assert reply.usage == Usage(uncached_input=12, cache_write=4_000, cache_read=9_000, output=500, cache_write_1h=0)
    assert reply.cost_usd == pytest.approx(0.04206, abs=1e-9)


def test_an_unmapped_model_has_tokens_and_no_cost(case: Case, client: Client) -> None:
    reply = client(case("B03"), "openai/d2k-brand-new-2027", own_server=False).ask()
    assert reply.usage == Usage(1_000, 0, 9_000, 500)
    assert reply.cost_usd is None


def test_at_a_server_of_ones_own_the_price_is_unknown(case: Case, client: Client, priced: str) -> None:
    assert client(case("B01a"), priced).ask().cost_usd is None


def test_missing_usage_is_unknown_and_so_is_the_cost_of_a_priced_model(case: Case, client: Client, priced: str) -> None:
    step = case("B01a")["responses"][0]
    del step["body"]["usage"]
    reply = client([step], priced, own_server=False).ask()
    assert reply.usage == Usage.unknown()
    assert reply.cost_usd is None


def test_reasoning_beside_the_completion_is_paid_for(case: Case, client: Client, priced: str) -> None:
    step = case("B04a")["responses"][0]
    step["body"]["usage"].update(completion_tokens=100, total_tokens=1_900)
    reply = client([step], priced, own_server=False).ask()
    assert reply.usage.output == 900
    assert reply.cost_usd == pytest.approx(0.0275, abs=1e-9)


def asked_in_the_loop(asked: Any, history: list[dict[str, Any]]) -> RepairedReply:
    """What the loop keeps of the next reply: it repairs a message before it sends it back."""
    reply = asked.ask(*history)
    taken = {call_id for message in history for call_id, *_ in calls_of(message)}
    return repair(reply.message, reply.finish_reason, len(history) + 1, taken)


def test_empty_arguments_mean_none(case: Case, client: Client) -> None:
    message = asked_in_the_loop(client(case("B05a")), []).message
    assert [(name, json.loads(arguments)) for _, name, arguments in calls_of(message)] == [("submit", {})]


def test_a_message_is_handed_on_as_the_provider_said_it(case: Case, client: Client) -> None:
    played = case("B06b")
    said = played["responses"][0]["body"]["choices"][0]["message"]["tool_calls"]
    heard = client(played).ask().message["tool_calls"]
    assert [call["function"] for call in heard] == [call["function"] for call in said]
    assert [heard[index]["id"] for index in (0, 1, 3)] == ["call_1", "call_1", ""]


def test_missing_and_repeated_ids_become_five_distinct_ones_that_go_back(case: Case, client: Client) -> None:
    asked = client(case("B06b"))
    message = asked_in_the_loop(asked, []).message
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


def test_a_call_cut_by_the_output_limit_is_refused_and_sent_back_readable(case: Case, client: Client) -> None:
    played = case("B07a")
    asked = client(played)
    reply = asked_in_the_loop(asked, [])
    cut = played["responses"][0]["body"]["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"]
    assert list(reply.refused) == ["call_1"]

    asked.ask(reply.message, {"role": "tool", "tool_call_id": "call_1", "content": reply.refused["call_1"]})
    sent = asked.provider.bodies[1]["messages"]
    assert cut in json.loads(sent[1]["tool_calls"][0]["function"]["arguments"]).values()
    assert "limit on output tokens" in sent[2]["content"]


def test_replies_without_calls_are_messages_that_can_be_sent_back(case: Case, client: Client) -> None:
    asked = client(case("B08"))
    history: list[dict[str, Any]] = []
    for _ in range(7):
        reply = asked.ask(*history)
        assert isinstance(reply.message["content"], str)
        assert not reply.message.get("tool_calls")
        assert reply.usage.output is not None
        repaired = repair(reply.message, reply.finish_reason, 1, ())
        history += [repaired.message, {"role": "user", "content": "call a tool"}]
    replies = [message for message in history if message["role"] == "assistant"]
    assert replies[0]["content"] == "I will now optimise the kernel."
    assert replies[4]["refusal"] == "I can't help with that."
    asked.ask(*history)
    assert all(message["content"] for message in asked.provider.bodies[-1]["messages"])


def test_request_n_is_a_prefix_of_request_n_plus_1(case: Case, client: Client) -> None:
    asked = client([*case("B07a")["responses"], *case("B06b")["responses"], *case("B08")["responses"]])
    history: list[dict[str, Any]] = []
    for _ in range(11):
        message = asked_in_the_loop(asked, history).message
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
