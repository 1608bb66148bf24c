"""What a few calls show of a model: every kind of answer, over HTTP."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from d2k_agent.config import ModelOptions
from d2k_agent.errors import ModelError, ProviderAway, UsageError
from d2k_agent.models import Quirks
from d2k_agent.models.checking import Checked, check
from d2k_agent.models.litellm_client import LiteLLMModel
from d2k_agent.models.retry import RetryPolicy
from d2k_agent.models.served import served_context_tokens
from d2k_agent.reports.model_text import ModelCheck, model_check_data, model_check_text
from tests.models.answers import counted, native, said
from tests.models.provider import Provider, serving

Asking = Callable[..., tuple[Checked, Provider]]
ONCE = RetryPolicy(attempts=1, way_on="check it again")


@pytest.fixture
def checked() -> Asking:
    def asking(steps: Sequence[dict[str, Any]], name: str = "openai/d2k-test-1", quirks: Quirks | None = None) -> Any:
        with serving(list(steps)) as provider:
            base = provider.url + ("" if name.startswith("anthropic/") else "/v1")

            def make(wanted: Quirks, watch: Callable[[Mapping[str, Any]], None]) -> LiteLLMModel:
                options = ModelOptions(api_base=base, timeout_s=20.0)
                return LiteLLMModel(name, options, quirks=wanted, policy=ONCE, watch=watch)

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


REFUSED = {"status": 400, "body": {"error": {"message": "not supported"}}}
AWAY = {"status": 503, "body": {"error": {"message": "overloaded"}}}
ACTION = said('{"tool": "note", "arguments": {"word": "one"}}')


def test_a_server_that_refuses_schemas_too_is_tried_in_plain_text(checked: Asking) -> None:
    found, provider = checked([REFUSED, REFUSED, ACTION])
    assert found.calls == "json_text"
    assert set(found.refusals) == {"native", "json_schema"}
    assert "response_format" in provider.bodies[1] and "response_format" not in provider.bodies[2]


def test_a_server_that_refuses_everything_is_an_error_that_speaks_of_no_run(checked: Asking) -> None:
    with pytest.raises(ModelError, match=r"not supported.*when that is mended, check it again"):
        checked([REFUSED])


def test_a_provider_that_knows_no_tools_is_tried_with_actions(checked: Asking) -> None:
    """LiteLLM itself refuses native calls for it, without any request."""
    found, provider = checked([ACTION], "featherless_ai/x")
    assert found.calls == "json_schema" and "has no native tool calls" in found.refusals["native"]
    assert len(provider.seen) == len(found.replies) == 2


def test_a_second_turn_that_is_refused_is_a_finding_and_another_way_is_tried(checked: Asking) -> None:
    found, _ = checked([native("one"), REFUSED, ACTION, ACTION])
    assert (found.calls, found.parallel) == ("json_schema", False)
    assert "not supported" in found.refusals["native"]
    nothing, _ = checked([native("one"), REFUSED])
    assert nothing.calls is None and set(nothing.refusals) == {"native", "json_schema", "json_text"}
    assert "none in any way" in model_check_text(shown(nothing))


def test_a_second_turn_that_nobody_answers_leaves_the_findings_of_the_first(checked: Asking) -> None:
    found, provider = checked([native("one", usage=counted(200, cached_tokens=0)), AWAY])
    assert (found.calls, found.parallel, found.reasoning_kept) == ("native", None, None)
    assert found.cache_read_of == (0, 200) and len(provider.seen) == 2, "no long prompt is tried then"
    lines = model_check_text(shown(found)).splitlines()
    (parallel,) = (line for line in lines if line.startswith("parallel calls"))
    assert "unknown: " in parallel and "check it again" in parallel


@pytest.mark.parametrize("failure", [REFUSED, AWAY])
def test_a_long_prompt_that_fails_is_a_finding(failure: dict[str, Any], checked: Asking) -> None:
    zero = counted(200, cached_tokens=0)
    found, _ = checked([native("one", usage=zero), native("two", "three", usage=zero), failure])
    assert (found.calls, found.parallel, found.cache_read_of) == ("native", True, (0, 200))
    assert found.refusals["cache"] in model_check_text(shown(found))


def test_a_reply_without_usage_among_others_makes_lower_bounds(checked: Asking) -> None:
    uncounted = native("two")
    uncounted["body"]["usage"] = None
    found, _ = checked([native("one", usage=counted(200, cached_tokens=64)), uncounted])
    text, data = model_check_text(shown(found)), model_check_data(shown(found))
    assert "all four buckets in 1 of 2 replies" in text
    assert "at least 200 tokens in, at least 10 out" in text
    assert (data["replies_with_all_buckets"], data["calls"], data["usage_lower_bound"]) == (1, 2, True)
    whole, _ = checked(
        [native("one", usage=counted(200, cached_tokens=64)), native("two", usage=counted(300, cached_tokens=64))]
    )
    assert "all four buckets\n" in model_check_text(shown(whole))
    assert "at least" not in model_check_text(shown(whole))
    assert not model_check_data(shown(whole))["usage_lower_bound"]


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
    facts = {"price": None, "context_tokens": None, "context_source": None, "quirks": Quirks(), **more}
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


def test_where_the_context_window_goes_is_said_with_the_file_wherever_the_sentence_stands(checked: Asking) -> None:
    alone, _ = checked([native("one"), native("two", "three")])
    (line,) = (line for line in model_check_data(shown(alone))["to_set"] if "context_tokens" in line)
    assert line.startswith('- below ["openai/d2k-test-1"] in ~/.config/d2k-agent/models.toml, or a file that')
    behind, _ = checked([said("Sure."), ACTION])
    *before, last = (line for line in model_check_data(shown(behind))["to_set"] if "price" not in line)
    assert before[0].startswith("- in ~/.config") and last.startswith("- there too, ")


def test_the_latency_is_that_of_the_answered_calls(checked: Asking) -> None:
    found, _ = checked([native("one"), native("two", "three")])
    found.replies = [replace(reply, seconds=seconds) for reply, seconds in zip(found.replies, (0.5, 0.2), strict=True)]
    assert "yes, 2 replies in 0.7 s" in model_check_text(shown(found))
    assert model_check_data(shown(found))["seconds"] == 0.7


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
