"""What a provider's failure becomes: a wait, a sentence for the operator, or an end that can be resumed."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

import pytest

from d2k_agent.config import ModelOptions
from d2k_agent.errors import CallsRefused, ContextOverflow, ModelError, UsageError
from d2k_agent.models.faults import Mask
from d2k_agent.models.litellm_client import LiteLLMModel
from d2k_agent.models.quirks import Quirks
from d2k_agent.models.retry import RetryPolicy
from tests.models.provider import KEY, SCHEMAS

Case = Callable[[str], dict[str, Any]]
Client = Callable[..., Any]


def failing(status: int, message: str = "no", headers: dict[str, str] | None = None, **more: Any) -> dict[str, Any]:
    return {"status": status, "body": {"error": {"message": message, **more}}, "headers": headers or {}}


def ok(case: Case) -> dict[str, Any]:
    step: dict[str, Any] = case("B01a")["responses"][0]
    return step


@pytest.mark.parametrize(
    ("calls", "words"),
    [
        ("native", 'has no native tool calls .*: set calls = "json_schema" or "json_text"'),
        ("json_schema", 'takes no schema of its answers .*: set calls = "json_text"'),
    ],
)
def test_a_provider_that_knows_no_tools_is_said_with_what_to_set(calls: str, words: str) -> None:
    """LiteLLM refuses them by itself, without any request."""
    model = LiteLLMModel("petals/x", ModelOptions(timeout_s=2.0), {}, quirks=Quirks(calls=calls))
    with pytest.raises(CallsRefused, match=words):
        model.complete([{"role": "user", "content": "go"}], SCHEMAS)


def test_rate_limit_and_a_server_error_are_waited_for(case: Case, client: Client) -> None:
    asked = client(case("B09a"))
    reply = asked.ask()
    assert reply.attempts == 3
    assert reply.usage.uncached_input == 100
    assert reply.unknown_attempts == 0
    assert asked.waits[0] >= 2
    asked.ask(reply.message, {"role": "tool", "tool_call_id": "call_1", "content": "x"})
    assert len(asked.provider.seen) == 4
    assert "rate limited" in asked.notices[0]


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "7"}, 7.0),
        ({"retry-after-ms": "1500"}, 1.5),
        ({"Date": "Sun, 29 Nov 2026 12:00:00 GMT", "Retry-After": "Sun, 29 Nov 2026 12:00:20 GMT"}, 20.0),
        ({"Retry-After": "soon"}, 0.5),
        ({}, 0.5),
    ],
)
def test_the_wait_that_was_asked_for(headers: dict[str, str], seconds: float, case: Case, client: Client) -> None:
    asked = client([failing(503, headers=headers), ok(case)])
    asked.ask()
    assert asked.waits == [pytest.approx(seconds)]


def test_a_provider_that_asks_for_an_hour_ends_the_attempts(client: Client) -> None:
    asked = client([failing(429, headers={"Retry-After": "3600"})])
    with pytest.raises(ModelError, match="3600 s: resume the run after that"):
        asked.ask()
    assert asked.waits == []


@pytest.mark.parametrize("name", ["openai/d2k-test-1", "anthropic/claude-opus-4-8"])
@pytest.mark.parametrize("status", [408, 409, 500, 502, 503, 529])
def test_failures_that_pass_are_asked_again(status: int, name: str, client: Client) -> None:
    asked = client([failing(status)], name)
    with pytest.raises(ModelError, match="gave up after 4 attempts"):
        asked.ask()
    assert len(asked.provider.seen) == 4
    assert asked.waits == [0.5, 1.0, 2.0]


@pytest.mark.parametrize("index", range(4))
def test_a_conversation_that_is_too_long_is_never_asked_again(index: int, case: Case, client: Client) -> None:
    asked = client([case("B09c")["responses"][index]])
    with pytest.raises(ContextOverflow, match="no longer fits openai/d2k-test-1"):
        asked.ask()
    assert len(asked.provider.seen) == 1


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (400, "This endpoint's maximum context length is 131072 tokens. However, you requested about 140000 tokens"),
        (400, "the request exceeds the available context size (8192 tokens), try increasing it"),
        (413, "Request exceeds the maximum allowed number of bytes."),
    ],
)
def test_other_words_for_too_long(status: int, message: str, client: Client) -> None:
    with pytest.raises(ContextOverflow):
        client([failing(status, message)]).ask()


def test_a_late_answer_is_not_used_and_its_usage_is_unknown(case: Case, client: Client) -> None:
    asked = client(case("B09d"), timeout_s=2.0)
    reply = asked.ask()
    assert reply.message["content"] == "ok"
    assert (reply.attempts, reply.unknown_attempts) == (2, 1)
    assert reply.usage.output == 2
    assert "did not answer in time" in asked.notices[0]


@pytest.mark.parametrize("broken", [{"status": 200, "raw": "<html>"}, {"status": 200, "hang_up": True}])
@pytest.mark.parametrize("name", ["openai/d2k-test-1", "anthropic/claude-opus-4-8"])
def test_an_answer_that_never_came_whole_may_have_been_billed(
    name: str, broken: dict[str, Any], case: Case, client: Client
) -> None:
    whole = case("B01b" if name.startswith("anthropic") else "B01a")["responses"][0]
    reply = client([broken, failing(500), whole], name).ask()
    assert (reply.attempts, reply.unknown_attempts) == (3, 1)


@pytest.mark.parametrize("text", ["<html><title>It works!</title></html>", '{"hello": 1}', "[1]"])
@pytest.mark.parametrize(
    "name", ["openai/d2k-test-1", "anthropic/claude-opus-4-8", "hosted_vllm/d2k-test-1", "ollama_chat/d2k-test-1"]
)
def test_a_server_that_answers_no_chat_completion_is_asked_twice_and_named(
    name: str, text: str, client: Client
) -> None:
    asked = client([{"status": 200, "raw": text, "headers": {"Content-Type": "text/html"}}], name)
    with pytest.raises(UsageError, match=r"no chat completion .* --api-base is the address of an API") as caught:
        asked.ask()
    assert len(asked.provider.seen) == 2
    assert str(caught.value).startswith(asked.provider.url)
    assert "Traceback" not in str(caught.value) and "\n" not in str(caught.value)


STREAMING_ROW = (
    r'write stream = true below \["{}"\] in ~/\.config/d2k-agent/models\.toml, or in a file that --models-file names'
)


@pytest.mark.parametrize("first", ["", ": ping\n\n", "event: message_start\n"])
@pytest.mark.parametrize("name", ["openai/d2k-test-1", "anthropic/claude-opus-4-8", "hosted_vllm/m", "ollama_chat/m"])
def test_a_server_that_only_streams_is_recognised_at_once(name: str, first: str, client: Client) -> None:
    stream = first + 'data: {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {}}]}\n\n'
    asked = client([{"status": 200, "raw": stream, "headers": {"Content-Type": "text/event-stream"}}], name)
    with pytest.raises(
        UsageError, match=f"answers {name} with an event stream.*{STREAMING_ROW.format(name)}"
    ) as caught:
        asked.ask()
    assert len(asked.provider.seen) == caught.value.unknown_attempts == 1
    assert "--api-base" not in str(caught.value) and "chunk" not in str(caught.value)


@pytest.mark.parametrize(
    "words",
    ["This model only supports streaming.", "This model only support stream mode, please enable the stream parameter"],
)
def test_a_server_that_says_that_it_only_streams_is_taken_at_its_word(words: str, client: Client) -> None:
    asked = client([failing(400, words)])
    with pytest.raises(UsageError, match=STREAMING_ROW.format("openai/d2k-test-1")):
        asked.ask()


@pytest.mark.parametrize(
    ("words", "option"),
    [
        ("Unsupported parameter: 'temperature' is not supported with this model.", "temperature"),
        ("Unsupported value: 'temperature' does not support 0.2. Only the default (1) is supported.", "temperature"),
        ("Unsupported parameter: 'max_tokens' is not supported. Use 'max_completion_tokens' instead.", "max_tokens"),
        ("Unknown parameter: 'reasoning.effort'.", "reasoning_effort"),
        ("[{'loc': ('body', 'temperature'), 'msg': 'Extra inputs are not permitted'}]", "temperature"),
        ("temperature must be between 0 and 2", None),
        ("This model does not support tools. Supported parameters are temperature, max_tokens.", None),
        ("Unsupported parameter: 'top_p' is not supported with this model.", None),
    ],
)
@pytest.mark.parametrize("status", [400, 422])
def test_an_option_that_a_provider_refuses_is_named_with_the_row(
    words: str, option: str | None, status: int, client: Client
) -> None:
    asked = client([failing(status, words)], temperature=0.2, max_tokens=9, reasoning_effort="low")
    with pytest.raises((UsageError, ModelError)) as caught:
        asked.ask()
    row = f'write leave_out = ["{option}"] below ["openai/d2k-test-1"] in ~/.config/d2k-agent/models.toml'
    assert (row in str(caught.value)) == (option is not None) == isinstance(caught.value, UsageError)
    assert len(asked.provider.seen) == 1


def test_the_row_to_write_keeps_what_the_row_left_out_before_and_names_only_what_is_sent(client: Client) -> None:
    said = "Unsupported parameter: 'temperature' is not supported with this model."
    asked = client([failing(400, said)], temperature=0.2, quirks=Quirks(leave_out=("max_tokens",)))
    with pytest.raises(UsageError, match=r'leave_out = \["max_tokens", "temperature"\]'):
        asked.ask()
    with pytest.raises(ModelError, match="could not be asked"):
        client([failing(400, said)]).ask()


def test_a_provider_that_answers_no_chat_completion_leaves_a_run_that_resumes(client: Client) -> None:
    asked = client([{"status": 200, "raw": '{"hello": 1}'}], own_server=False)
    with pytest.raises(ModelError, match=r"the provider answers .* resume the run"):
        asked.ask()
    assert len(asked.provider.seen) == 2


@pytest.mark.parametrize("status", [500, 502])
def test_a_web_page_with_an_errors_status_is_an_outage(status: int, client: Client) -> None:
    asked = client([{"status": status, "raw": "<html>Bad Gateway</html>", "headers": {"Content-Type": "text/html"}}])
    with pytest.raises(ModelError, match="gave up after 4 attempts"):
        asked.ask()


def test_a_server_that_is_not_there_is_named(case: Case, client: Client) -> None:
    asked = client([ok(case)])
    model = LiteLLMModel(
        "openai/d2k-test-1",
        ModelOptions(api_base="http://127.0.0.1:9/v1"),
        policy=RetryPolicy(attempts=2),
        wait=asked.waits.append,
    )
    with pytest.raises(ModelError, match=r"no connection to http://127\.0\.0\.1:9/v1 .* see that it runs") as caught:
        model.complete([{"role": "user", "content": "go"}], [])
    assert len(asked.waits) == 1
    assert caught.value.unknown_attempts == 0, "nothing was sent"


def test_a_server_that_always_hangs_up_may_have_billed_each_attempt(client: Client) -> None:
    with pytest.raises(ModelError) as caught:
        client([{"status": 200, "hang_up": True}]).ask()
    assert caught.value.unknown_attempts == 4


@pytest.mark.parametrize(
    ("step", "words"),
    [
        (failing(401, f"Incorrect API key provided: {KEY}"), "does not accept the key .* set OPENAI_API_KEY"),
        (failing(403), "does not let the key use this model .* set OPENAI_API_KEY"),
        (failing(404), "has no model 'openai/d2k-test-1' .* check the model's name"),
        (failing(402), "no credit left"),
        (failing(429, code="insufficient_quota"), "no credit left"),
    ],
)
def test_what_only_the_operator_can_mend_is_said_at_once(step: dict[str, Any], words: str, client: Client) -> None:
    asked = client([step])
    with pytest.raises(UsageError, match=words):
        asked.ask()
    assert len(asked.provider.seen) == 1


def test_a_refused_request_ends_the_attempts(client: Client) -> None:
    asked = client([failing(400, "messages.3: role is wrong")])
    with pytest.raises(ModelError, match=r"messages\.3: role is wrong.*resume") as caught:
        asked.ask()
    assert not isinstance(caught.value, ContextOverflow)
    assert len(asked.provider.seen) == 1


def test_an_option_that_the_model_does_not_take_is_named() -> None:
    model = LiteLLMModel(
        "anthropic/claude-opus-4-8", ModelOptions(temperature=0.2), {"ANTHROPIC_API_KEY": KEY}, wait=lambda _: None
    )
    with pytest.raises(UsageError, match=r'leave that option out: write leave_out = \["temperature"\]') as caught:
        model.complete([{"role": "user", "content": "go"}], [])
    assert "drop" not in str(caught.value), "nobody can set what LiteLLM advises"


@pytest.mark.parametrize("status", [400, 401, 403, 500])
def test_keys_appear_nowhere(status: int, client: Client) -> None:
    other = "sk-other-99999999999"
    asked = client([failing(status, f"bad key {KEY}, not {other}; Authorization: Bearer abcdefgh.ijk")])
    with pytest.raises((UsageError, ModelError)) as caught:
        asked.ask()
    shown = "".join(traceback.format_exception(caught.value)) + "".join(asked.notices) + repr(vars(asked.provider))
    said = "".join(traceback.format_exception(caught.value)) + "".join(asked.notices)
    assert KEY in shown, "the provider was given the key, so the test can fail"
    assert KEY not in said
    assert other not in said
    assert "abcdefgh" not in said
    assert "<OPENAI_API_KEY>" in said


def test_a_mask_knows_keys_from_other_variables() -> None:
    mask = Mask({"OPENAI_API_KEY": "sk-abc-123456789", "HOME": "/home/somebody", "SHORT_KEY": "a"})
    assert mask("in /home/somebody with sk-abc-123456789 and a") == "in /home/somebody with <OPENAI_API_KEY> and a"


def test_a_missing_key_is_known_before_the_first_request() -> None:
    with pytest.raises(UsageError, match="no key for deepseek/deepseek-chat: set DEEPSEEK_API_KEY"):
        LiteLLMModel("deepseek/deepseek-chat")
    with pytest.raises(UsageError, match="set GOOGLE_API_KEY or GEMINI_API_KEY"):
        LiteLLMModel("gemini/gemini-2.5-pro")
    LiteLLMModel("deepseek/deepseek-chat", keys={"DEEPSEEK_API_KEY": KEY})
    LiteLLMModel("gemini/gemini-2.5-pro", keys={"GEMINI_API_KEY": KEY})


def test_a_server_of_ones_own_needs_no_key(case: Case, client: Client) -> None:
    base = client([ok(case)]).provider
    reply = LiteLLMModel("openai/any", ModelOptions(api_base=f"{base.url}/v1")).complete(
        [{"role": "user", "content": "go"}], []
    )
    assert reply.message["content"] == "done"


@pytest.mark.parametrize("name", ["nonsense", "made/up"])
def test_a_name_that_is_no_models(name: str) -> None:
    with pytest.raises(UsageError, match=f"{name!r}; give PROVIDER/NAME"):
        LiteLLMModel(name)
