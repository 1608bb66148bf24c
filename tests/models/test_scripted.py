"""A scripted model gives its replies in order, by what the conversation already holds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from d2k_agent.errors import ContextOverflow, ScriptEnded, UsageError
from d2k_agent.models import ScriptedModel, Usage, load_script, script_name

USER = {"role": "user", "content": "go"}
READ = {"name": "read", "arguments": {"path": "solution.py"}}


def test_replies_come_in_order_and_then_end() -> None:
    model = ScriptedModel(["first", {"content": "second"}])
    messages: list[dict[str, Any]] = [USER]
    for text in ("first", "second"):
        reply = model.complete(messages, [])
        assert reply.message == {"role": "assistant", "content": text}
        messages += [reply.message, USER]
    with pytest.raises(ScriptEnded, match="2 replies and all were given"):
        model.complete(messages, [])


def test_a_fresh_model_goes_on_where_the_conversation_stands() -> None:
    first = ScriptedModel(["first", "second"]).complete([USER], []).message
    assert ScriptedModel(["first", "second"]).complete([USER, first, USER], []).message["content"] == "second"


def test_calls_get_the_form_and_the_same_ids_every_time() -> None:
    script = [{"content": "look", "tool_calls": [READ, {"name": "bash", "arguments": {"command": "ls"}}]}]
    reply = ScriptedModel(script).complete([USER], [])
    calls = reply.message["tool_calls"]
    assert [call["id"] for call in calls] == ["call_1_1", "call_1_2"]
    assert calls[0]["function"]["name"] == "read"
    assert json.loads(calls[0]["function"]["arguments"]) == {"path": "solution.py"}
    assert reply.finish_reason == "tool_calls"
    assert ScriptedModel(script).complete([USER], []) == reply


def test_broken_calls_are_said_as_they_are_written() -> None:
    whole = {"id": "", "type": "function", "function": {"name": "read", "arguments": "{"}}
    script = [{"tool_calls": [{"name": "read", "arguments": '{"path'}, whole], "finish_reason": "length"}]
    reply = ScriptedModel(script).complete([USER], [])
    assert [call["function"]["arguments"] for call in reply.message["tool_calls"]] == ['{"path', "{"]
    assert reply.message["tool_calls"][1]["id"] == ""
    assert reply.finish_reason == "length"


def test_a_policy_sees_the_conversation_and_may_fail_as_a_model_does() -> None:
    def policy(messages: Any, tools: Any) -> str:
        if len(messages) > 1:
            raise ContextOverflow("too long")
        return f"{messages[-1]['content']} with {tools[0]['function']['name']}"

    model = ScriptedModel(policy)
    assert model.complete([USER], [{"function": {"name": "read"}}]).message["content"] == "go with read"
    with pytest.raises(ContextOverflow):
        model.complete([USER, USER], [])


def test_nobody_counted_its_tokens() -> None:
    reply = ScriptedModel(["hello"]).complete([USER], [])
    assert reply.usage == Usage.unknown()
    assert reply.cost_usd is None


def write(folder: Path, replies: Any, **more: Any) -> Path:
    path = folder / "script.json"
    path.write_text(json.dumps({"replies": replies, **more}))
    return path


def test_a_script_file_takes_long_texts_from_files_beside_it(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "first.py").write_text("def run(): ...\n")
    call = {"name": "write", "arguments": {"path": "solution.py", "content": {"$file": "parts/first.py"}}}
    path = write(tmp_path, [{"content": "go", "tool_calls": [call]}], name="scripted/demo")
    reply = ScriptedModel(load_script(path), script_name(path)).complete([USER], [])
    arguments = json.loads(reply.message["tool_calls"][0]["function"]["arguments"])
    assert arguments == {"path": "solution.py", "content": "def run(): ...\n"}
    assert script_name(path) == "scripted/demo"


def test_a_script_without_a_name_is_called_by_its_file(tmp_path: Path) -> None:
    assert script_name(write(tmp_path, [])) == "scripted/script"


@pytest.mark.parametrize(
    ("replies", "words"),
    [
        ("none", "list of objects"),
        (["text"], "list of objects"),
        ([{}], "reply 1 is empty"),
        ([{"content": "a", "finish_reason": 5}], 'reply 1: "finish_reason" must be text, not 5'),
        ([{"content": 5}], 'reply 1: "content" must be text, not 5'),
        ([{"tool_calls": {"name": "read"}}], 'reply 1: "tool_calls" must be a list'),
        ([{"content": "a"}, {"tool_calls": [{"arguments": {}}]}], 'reply 2 has a call without a "name"'),
        ([{"content": {"$file": "../outside.py"}}], "outside the script's folder"),
        ([{"content": {"$file": "missing.py"}}], "missing.py cannot be read"),
    ],
)
def test_what_is_wrong_with_a_script_is_said(replies: Any, words: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=words):
        load_script(write(tmp_path, replies))


def test_no_script_and_no_json(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot be read .* give the path"):
        load_script(tmp_path / "script.json")
    (tmp_path / "script.json").write_text("{")
    with pytest.raises(UsageError, match="is no JSON"):
        load_script(tmp_path / "script.json")
