"""What a few calls show of a model: every kind of answer, over HTTP."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from d2k_agent.config import ModelOptions
from d2k_agent.errors import ProviderAway, UsageError
from d2k_agent.models import Quirks
from d2k_agent.models.checking import Checked, check
from d2k_agent.models.litellm_client import LiteLLMModel
from d2k_agent.models.retry import RetryPolicy
from d2k_agent.models.served import served_context_tokens
from d2k_agent.reports.model_text import ModelCheck, model_check_data, model_check_text
from tests.models.answers import counted, native, said
from tests.models.provider import Provider, serving

Asking = Callable[..., tuple[Checked, Provider]]


@pytest.fixture
def checked() -> Asking:
    def asking(steps: Sequence[dict[str, Any]], name: str = "openai/d2k-test-1", quirks: Quirks | None = None) -> Any:
        with serving(list(steps)) as provider:
            base = provider.url + ("" if name.startswith("anthropic/") else "/v1")

            def make(wanted: Quirks, watch: Callable[[Mapping[str, Any]], None]) -> LiteLLMModel:
                options, policy = ModelOptions(api_base=base, timeout_s=20.0), RetryPolicy(attempts=1)
                return LiteLLMModel(name, options, quirks=wanted, policy=policy, watch=watch)

            return check(make, quirks or Quirks()), provider

    return asking


def test_a_model_that_can_everything_is_asked_twice(checked: Asking) -> None:
    thought = {"reasoning_content": 'a "quoted" thought'}
    steps = [native("one", **thought), native("two", "three", usage=counted(200, cached_tokens=128))]
    found, provider = checked(steps)
    assert (found.calls, found.parallel, found.cache_read_of) == ("native", True, (128, 200))
    assert found.reasoning_kept is True
    assert len(provider.seen) == 2
    roles = [message["role"] for message in provider.bodies[1]["messages"]]
    assert roles == ["system", "user", "assistant", "tool", "user"]


def test_a_cache_that_begins_at_long_prompts_is_found_by_long_prompts(checked: Asking) -> None:
    zero, long = counted(200, cached_tokens=0), counted(6000, cached_tokens=5888)
    steps = [native("one", usage=zero), native("two", usage=zero), native("one", usage=zero), native("two", usage=long)]
    found, provider = checked(steps)
    assert found.cache_read_of == (5888, 6000)
    assert not found.parallel
    third, fourth = provider.bodies[2:]
    assert third["messages"][0] == fourth["messages"][0]
    assert third["messages"][0]["content"].count("\n") > 500, "above every provider's smallest cached prefix"


def test_where_nobody_counts_reads_no_long_prompt_is_paid_for(checked: Asking) -> None:
    found, provider = checked([native("one"), native("two")])
    assert found.cache_read_of is None
    assert len(provider.seen) == 2


def test_a_model_without_native_calls_is_tried_with_actions_under_a_schema(checked: Asking) -> None:
    found, provider = checked(
        [said("Sure, one."), said('{"thought": "", "tool": "note", "arguments": {"word": "one"}}')]
    )
    assert found.calls == "json_schema"
    assert "called no tool" in found.refusals["native"]
    assert "tools" in provider.bodies[0] and "response_format" in provider.bodies[1]


def test_a_server_that_refuses_tools_and_schemas_is_tried_in_plain_text(checked: Asking) -> None:
    refused = {"status": 400, "body": {"error": {"message": "m does not support tools"}}}
    action = said('I do.\n{"tool": "note", "arguments": {"word": "one"}}')
    found, provider = checked([refused, said("one"), action])
    assert found.calls == "json_text"
    assert "does not support tools" in found.refusals["native"]
    assert "response_format" not in provider.bodies[2] and "tools" not in provider.bodies[2]


def test_a_model_that_calls_nothing_in_any_way_is_not_usable(checked: Asking) -> None:
    found, provider = checked([said("No.")])
    assert found.calls is None
    assert len(provider.seen) == 3
    text = model_check_text(shown(found))
    assert "none in any way" in text and "take another one" in text
    assert not model_check_data(shown(found))["usable"]


def test_a_key_that_is_refused_is_an_error_and_no_finding(checked: Asking) -> None:
    with pytest.raises(UsageError, match="does not accept the key"):
        checked([{"status": 401, "body": {"error": {"message": "no"}}}])


def test_a_provider_that_is_away_is_an_error_and_not_asked_in_other_ways(checked: Asking) -> None:
    with pytest.raises(ProviderAway, match="gave up after 1 attempt"):
        checked([{"status": 503, "body": {"error": {"message": "overloaded"}}}])


def test_reasoning_that_an_api_does_not_take_back_is_found_lost(checked: Asking) -> None:
    usage = {"input_tokens": 12, "output_tokens": 50, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 9}
    thinking = {"type": "thinking", "thinking": "read first", "signature": "SIG-123=="}
    use = {"type": "tool_use", "id": "toolu_1", "name": "note", "input": {"word": "one"}}
    message = {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "model": "c",
        "stop_reason": "tool_use",
        "usage": usage,
    }
    found, _ = checked([{"status": 200, "body": {**message, "content": [thinking, use]}}], "anthropic/claude-opus-4-8")
    assert found.reasoning_kept is True
    lost = Checked(calls="native", reasoning_kept=False, replies=found.replies)
    assert "is lost between turns" in model_check_text(shown(lost))


def shown(found: Checked, **more: Any) -> ModelCheck:
    facts = {"price": None, "context_tokens": None, "context_source": None, "seconds": 1.0, "quirks": Quirks(), **more}
    return ModelCheck(model="openai/d2k-test-1", server="http://host/v1", checked=found, **facts)


def test_what_is_missing_is_said_with_the_line_that_sets_it(checked: Asking) -> None:
    found, _ = checked([said("Sure."), said('{"tool": "note", "arguments": {"word": "one"}}')])
    check = shown(found, context_tokens=8192, context_source="the server's list")
    text = model_check_text(check)
    assert '    ["openai/d2k-test-1"]\n    calls = "json_schema"\n    context_tokens = 8192' in text
    assert "--price-file FILE with a row for openai/d2k-test-1" in text
    data = model_check_data(check)
    assert data["row"] == {"calls": "json_schema", "context_tokens": 8192}
    assert data["buckets_reported"] == ["output"] and data["cost_usd"] is None
    assert data["calls"] == 3
    known = shown(found, quirks=Quirks(calls="json_schema"), context_tokens=8192, context_source="the table of models")
    assert model_check_data(known)["row"] == {}, "what the tables say already is not said again"


@pytest.mark.parametrize(
    ("listed", "tokens"),
    [
        ([{"id": "other", "max_model_len": 1}, {"id": "m", "max_model_len": 32768}], 32768),
        ([{"id": "/models/m.gguf", "meta": {"n_ctx": 8192, "n_ctx_train": 131072}}], 8192),
        ([{"id": "a"}, {"id": "b", "context_length": 5}], None),
        ([{"id": "m", "context_length": "long"}], None),
        ("none", None),
        ([], None),
    ],
)
def test_the_context_window_that_a_servers_list_names(listed: Any, tokens: int | None) -> None:
    with serving([]) as provider:
        provider.listed = {"data": listed}
        assert served_context_tokens(f"{provider.url}/v1/", "m", "sk-1") == tokens


def test_a_server_without_a_list_names_no_context_window() -> None:
    with serving([]) as provider:
        assert served_context_tokens(f"{provider.url}/v1", "m", None) is None
    assert served_context_tokens("http://127.0.0.1:9/v1", "m", None) is None
