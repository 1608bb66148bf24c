"""The table of models: what ships, what a user's file adds, and what no row may say."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from d2k_agent.config import ModelOptions
from d2k_agent.errors import UsageError
from d2k_agent.models.faults import Mask
from d2k_agent.models.litellm_client import context_tokens, quirks_of
from d2k_agent.models.price_lists import ModelNames
from d2k_agent.models.quirks import Quirks, QuirksFile, find_quirks

Case = Callable[[str], dict[str, Any]]
Client = Callable[..., Any]


def table(folder: Path, text: str) -> QuirksFile:
    path = folder / "models.toml"
    path.write_text(text)
    return QuirksFile(path, "models.toml")


def test_a_model_without_a_row_is_like_the_others() -> None:
    assert find_quirks(ModelNames.of("openai/anything")) == Quirks()


def test_the_table_that_ships_knows_claude_wherever_it_is_served_and_responses_models() -> None:
    for name in ("claude-opus-4-8", "bedrock/us.anthropic.claude-opus-4-8", "openrouter/anthropic/claude-opus-4.8"):
        found = quirks_of(name)
        assert found.cache_marks and not found.counts_reasoning, name
    assert not quirks_of("openai/claude-like").cache_marks
    assert quirks_of("openai/responses/gpt").send["include"] == ["reasoning.encrypted_content"]


def test_a_users_row_replaces_the_fields_that_it_names_and_no_others(tmp_path: Path) -> None:
    users = table(tmp_path, '["anthropic/*"]\nstream = true\n["anthropic/claude-opus-*"]\ncache_marks = false\n')
    found = find_quirks(ModelNames("claude-opus-4-8", "anthropic", "claude-opus-4-8"), users)
    assert (found.stream, found.cache_marks, found.counts_reasoning) == (True, False, False)
    assert found.rows == ("anthropic/*claude*", "anthropic/*", "anthropic/claude-opus-*")
    assert found.calls_row is None


def test_the_row_that_says_how_tools_are_called_is_known(tmp_path: Path) -> None:
    users = table(
        tmp_path, '["*"]\ncalls = "json_schema"\n["a/*"]\ncalls = "json_text"\n["*/b"]\ncontext_tokens = 4096\n'
    )
    found = find_quirks(ModelNames.of("a/b"), users)
    assert (found.calls, found.calls_row, found.rows) == ("json_text", "a/*", ("*", "a/*", "*/b"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("calls = 1", r"calls: a row must be a table such as \[\"openai/my-model\"\], not 1"),
        ('["a/b"]\ncalls = "xml"', "a/b: calls must be one of native, json_schema, json_text, not 'xml'"),
        ('["a/b"]\nstream = 1', "a/b: stream must be true or false, not 1"),
        ('["a/b"]\nleave_out = ["seed"]', "leave_out may name max_tokens, temperature, reasoning_effort, not 'seed'"),
        ('["a/b"]\nleave_out = [1]', "leave_out must be a list of strings"),
        ('["a/b"]\ncontext_tokens = 0', "context_tokens must be greater than 0"),
        ('["a/b"]\nstreams = true', "unknown field 'streams'; a row may hold calls, stream"),
        ('["a/b"]\nsend = { seed = 1979-05-27 }', r"models\.toml: a/b: send\.seed must be JSON data"),
        ('["a/b"]\nsend = { seed = inf }', r"models\.toml: a/b: send\.seed must be JSON data .* not inf; correct it"),
        ('["a/b"]\nsend.extra_body = { x = [{ y = nan }] }', r"send\.extra_body\.x\.y must be JSON data .* not nan"),
        ('["a/b"]\nsend.extra_body.at = 07:32:00', r"send\.extra_body\.at must be JSON data"),
        ("[", "is no TOML"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(text: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=words):
        table(tmp_path, text)


@pytest.mark.parametrize(
    "name", ["api_base", "base_url", "api_key", "extra_headers", "aws_access_key_id", "model", "tools"]
)
def test_no_row_says_where_a_request_goes_or_with_which_key(name: str) -> None:
    """A run's record holds its rows, and a run's folder may be a stranger's."""
    with pytest.raises(UsageError, match=f"send may hold .* not '{name}'"):
        Quirks(send={name: "x"})


@pytest.mark.parametrize(
    ("field", "where"),
    [
        ('guardrail_token = "hunter2-very-hidden"', "send.extra_body.guardrail_token"),
        ('a = { b = [{ apiKey = "hunter2-very-hidden" }] }', "send.extra_body.a.b.apiKey"),
        ('headers = { x-api-key-2 = "hunter2-very-hidden" }', "send.extra_body.headers.x-api-key-2"),
        ('credentials = { user = "u", of = "hunter2-very-hidden" }', "send.extra_body.credentials.user"),
        ("password = 4711", "send.extra_body.password"),
        ('header = "Bearer hunter2-very-hidden"', "send.extra_body.header"),
        ('other = ["sk-hunter2-very-hidden"]', "send.extra_body.other"),
        ('mine = "x hunter2-very-hidden"', "send.extra_body.mine"),
        ("hunter2-very-hidden = 1", "send.extra_body.<MY_KEY> looks"),
    ],
)
def test_no_row_holds_a_key_at_any_depth(field: str, where: str, tmp_path: Path) -> None:
    """A run's record holds its rows unmasked. A key is known by its name, its shape or the environment."""
    path = tmp_path / "models.toml"
    path.write_text(f'["a/b"]\nsend.extra_body = {{ {field} }}')
    with pytest.raises(UsageError) as refused:
        QuirksFile(path, "models.toml", Mask({"MY_KEY": "hunter2-very-hidden"}))
    assert str(refused.value).startswith(f"models.toml: a/b: {where}")
    assert "looks like a key" in str(refused.value) and "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    "text",
    [
        'MY_KEY = "hunter2-very-hidden"',
        '["a/b"]\nstream = "hunter2-very-hidden"',
        '["a/b"]\nsend = "hunter2-very-hidden"',
        '["a/b"]\ncalls = "sk-hunter2-hidden"',
        '["a/b"]\nsk-hunter2-hidden = 1',
        '["sk-hunter2-hidden"]\nx = 1',
    ],
)
def test_a_key_in_a_wrong_place_of_a_file_is_not_told(text: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as refused:
        table(tmp_path, text)
    assert "hunter2" not in str(refused.value) and str(refused.value).startswith("models.toml: ")


def test_names_of_tokens_and_of_known_parameters_are_no_keys(tmp_path: Path) -> None:
    table(
        tmp_path,
        '["a/b"]\nsend.prompt_cache_key = "d2k"\nsend.thinking = { type = "enabled", budget_tokens = 1024 }\n'
        "send.extra_body = { stop_token_ids = [1, 2], skip_special_tokens = false, max_tokens = 5 }",
    )


def test_a_record_that_names_such_a_thing_is_refused_too() -> None:
    record = TypeAdapter(Quirks)
    assert record.validate_json(record.dump_json(Quirks(send={"seed": 7}, rows=("a",)))).send == {"seed": 7}
    with pytest.raises(UsageError, match="not 'api_base'"):
        record.validate_json('{"send": {"api_base": "http://elsewhere"}}')


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"models file no\.toml cannot be read"):
        QuirksFile(tmp_path / "no.toml", "no.toml")


def test_what_a_row_adds_is_sent_and_what_it_leaves_out_is_said(case: Case, client: Client) -> None:
    quirks = Quirks(leave_out=("temperature",), send={"seed": 7, "extra_body": {"cache_prompt": True}})
    asked = client(case("B01a"), quirks=quirks, temperature=0.3, max_tokens=100)
    reply = asked.ask()
    sent = asked.provider.bodies[0]
    assert (sent["seed"], sent["cache_prompt"], sent["max_tokens"]) == (7, True, 100)
    assert "temperature" not in sent and "temperature" not in reply.parameters
    assert reply.not_as_wished == ("temperature was not sent",)
    asked.ask()
    assert asked.notices == ["openai/d2k-test-1: temperature was not sent"], "said once"


def test_the_context_window_is_the_rows_else_the_lists_and_of_a_server_of_ones_own_nobodys() -> None:
    here = ModelOptions(api_base="http://127.0.0.1:9/v1")
    assert context_tokens("openai/gpt-4o", ModelOptions(), Quirks(context_tokens=5)) == 5
    assert (context_tokens("openai/gpt-4o", ModelOptions(), Quirks()) or 0) > 100_000
    assert context_tokens("openai/gpt-4o", here, Quirks()) is None
    assert context_tokens("openai/no-such-model", ModelOptions(), Quirks()) is None
