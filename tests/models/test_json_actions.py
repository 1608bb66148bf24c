"""Models without tool calls: one JSON object is one call, and the model sees its own words again letter by letter."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from d2k_agent.agent.prompt import NUDGE
from d2k_agent.agent.replies import repair, requested_calls
from d2k_agent.models.json_actions import as_text, response_format, with_calls
from d2k_agent.models.quirks import Quirks
from tests.models.answers import said
from tests.models.provider import SCHEMAS

Client = Callable[..., Any]

ACTION = '{ "thought": "look first", "tool": "read", "arguments": {"path": "solution.py"} }'


def requested(text: str, finish: str = "stop") -> list[tuple[str, dict[str, Any], bool]]:
    """Name, arguments and whether it is executed, of each call that the loop finds in a reply."""
    repaired = repair(with_calls({"role": "assistant", "content": text}, 3), finish, 3, set())
    return [(c.name, c.arguments, c.refusal is None) for c in requested_calls(repaired.message, repaired.refused)]


@pytest.mark.parametrize(
    "text",
    [
        ACTION,
        f"I look first.\n```json\n{ACTION}\n```\nand go on",
        f"A set {{1, 2}} first, and code: if (x) {{ for (;;) {{ y(); }} }}\n{ACTION}",
        f'{ACTION} {{"thought": "no more", "done": true}}',
    ],
)
def test_an_action_among_other_words_is_a_call(text: str) -> None:
    assert requested(text) == [("read", {"path": "solution.py"}, True)]


@pytest.mark.parametrize(
    "reply",
    ['{"name": "read", "arguments": {"path": "a"}}', '{"thought": "read it, "tool": read}', "I will read it."],
)
def test_the_nudge_after_a_reply_without_an_action_shows_the_form_of_one(reply: str) -> None:
    missed = with_calls({"role": "assistant", "content": reply}, 1)
    assert "tool_calls" not in missed
    before = [{"role": "system", "content": "s"}, {"role": "user", "content": "go"}, missed]
    *_, nudge = as_text([*before, {"role": "user", "content": NUDGE}], SCHEMAS)
    words, _, form = nudge["content"].partition("\n\n")
    assert words == NUDGE
    assert "one of read, write, bash, submit" in form
    assert requested(form) == [("read", {}, True)], "what is shown is an action itself"


def test_nothing_else_that_the_user_says_shows_the_form() -> None:
    called = with_calls({"role": "assistant", "content": ACTION}, 1)
    result = {"role": "tool", "tool_call_id": "action_1", "content": "x"}
    told = as_text([{"role": "user", "content": "go"}, called, result, {"role": "user", "content": "3 left"}], SCHEMAS)
    assert [message["content"] for message in told[1:]] == ["go", ACTION, "Result:\nx", "3 left"]


@pytest.mark.parametrize("between", ["", "\n", ",\n", " and then "])
def test_each_of_several_actions_is_a_call_with_an_id_of_its_own(between: str) -> None:
    text = f'{ACTION}{between}{{"tool": "bash", "arguments": {{"command": "ls"}}}}'
    assert requested(text) == [("read", {"path": "solution.py"}, True), ("bash", {"command": "ls"}, True)]
    assert [executed for _, _, executed in requested(text, "length")] == [True, False]
    ids = [call["id"] for call in with_calls({"content": text}, 3)["tool_calls"]]
    assert len(set(ids)) == 2


@pytest.mark.parametrize(
    "text",
    [
        "I am done.",
        '{"thought": "no more", "done": true}',
        "",
        '{"tool": 5}',
        'I will not call "tool": "submit" yet, I still have to think.',
        'A set {1, 2}, and no "tool": "submit" yet.',
        '{"thought": "no more", "done": true, "not": {"tool": "submit", "arguments": {}}}',
        '{"example": [{"tool": "submit"}]}',
        '{"thought": "an object that nothing closes',
    ],
)
def test_a_reply_without_an_action_has_no_call(text: str) -> None:
    assert requested(text) == []


def test_missing_arguments_are_none_and_others_than_an_object_are_refused() -> None:
    assert requested('{"tool": "submit"}') == [("submit", {}, True)]
    assert requested('{"tool": "read", "arguments": "solution.py"}') == [("read", {"unparsed": '"solution.py"'}, False)]


@pytest.mark.parametrize("finish", ["stop", "length"])
@pytest.mark.parametrize(
    ("broken", "named"),
    [
        ('{"thought": "a", "tool": "write", "arguments": {"path": "solution.py", "content": "import tri', "write"),
        ('{"thought": "hand it in", "tool": "submit"', "submit"),
        ('{"thought": "hand it in", "tool": "submit", "arguments": {}', "submit"),
        ('{"thought": "hand it in", "tool": "submit", "arguments": {},}', "submit"),
        ('{"thought": "first {"tool": "submit", "arguments": {}} not", "tool": "read", "arguments": {}}', "submit"),
        ('{"tool": "bash", "arguments": {"command": "echo", "x": {"tool": "submit", "arguments": {}}', "bash"),
        ('{thought: "a } b", arguments: {"tool": "submit", "arguments": {}}}', "submit"),
        ('{"thought": "a } b", "tool": "bash", "arguments": {"tool": "submit"},}', "bash"),
        ('{1, 2 and {"tool": "submit"}', "submit"),
        pytest.param('{"tool": "submit", "x": ' + "[" * 100_000, "submit", id="nested too deeply"),
    ],
)
def test_a_call_that_is_no_whole_object_is_one_call_that_is_not_executed(broken: str, named: str, finish: str) -> None:
    """What stands inside of it is not executed either, and the model sees what could not be read."""
    assert requested(f"I say: {broken}", finish) == [(named, {"unparsed": broken}, False)]


def test_whole_calls_before_a_broken_one_are_executed() -> None:
    assert [(name, executed) for name, _, executed in requested(ACTION + '\n{"tool": "submit"')] == [
        ("read", True),
        ("submit", False),
    ]


def test_the_schema_allows_each_tool_with_its_arguments_or_none() -> None:
    form = response_format(SCHEMAS)["json_schema"]["schema"]["anyOf"]
    names = [entry["properties"].get("tool", {}).get("const") for entry in form]
    assert names == ["read", "write", "bash", "submit", None]
    assert all(entry["additionalProperties"] is False for entry in form)
    assert form[0]["properties"]["arguments"] == SCHEMAS[0]["function"]["parameters"]
    assert form[-1]["properties"]["done"] == {"const": True}


def test_a_conversation_without_a_system_message_gets_one() -> None:
    told = as_text([{"role": "user", "content": "go"}], SCHEMAS)
    assert [message["role"] for message in told] == ["system", "user"]
    assert told[0]["content"].startswith("You call a tool by answering with one JSON object")


@pytest.mark.parametrize(("calls", "enforced"), [("json_schema", True), ("json_text", False)])
def test_the_loop_in_text_over_http(calls: str, enforced: bool, client: Client) -> None:
    asked = client([said(ACTION), said("text only"), said(ACTION)], quirks=Quirks(calls=calls))
    start = [{"role": "system", "content": "rules"}, {"role": "user", "content": "go"}]
    history: list[dict[str, Any]] = list(start)
    for answer in ({"role": "tool", "content": "# template"}, {"role": "user", "content": "call a tool"}, None):
        message = asked.model.complete(history, SCHEMAS).message
        call_ids = [call["id"] for call in message.get("tool_calls", ())]
        history += [message, {**(answer or {}), **({"tool_call_id": call_ids[0]} if call_ids else {})}]

    assert call_ids == ["action_3"], "ids differ from reply to reply"
    first, second, third = asked.provider.bodies
    assert "tools" not in first
    assert ("response_format" in first) is enforced
    assert first["messages"][0]["content"].startswith("rules\nYou call a tool by answering with")
    assert '"properties": {}' in first["messages"][0]["content"]
    nudge = third["messages"][-1]["content"]
    assert nudge.startswith("call a tool\n\nA tool call is one whole JSON object")
    assert third["messages"][2:] == [
        {"role": "assistant", "content": ACTION},
        {"role": "user", "content": "Result:\n# template"},
        {"role": "assistant", "content": "text only"},
        {"role": "user", "content": nudge},
    ]
    assert json.dumps(third["messages"]).startswith(json.dumps(second["messages"])[:-1]), "the prefix is kept"


def test_the_calls_of_a_reply_are_what_the_run_records(client: Client) -> None:
    reply = client([said(ACTION)], quirks=Quirks(calls="json_schema")).ask()
    (call,) = reply.message["tool_calls"]
    assert call["function"] == {"name": "read", "arguments": '{"path": "solution.py"}'}
    assert reply.message["content"] == ACTION
    assert reply.parameters["response_format"]["type"] == "json_schema"
