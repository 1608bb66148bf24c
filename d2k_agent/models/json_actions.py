"""Tool calls for models that have none: each JSON object in a reply's text is one call.

Covers: what such a model is told, the schema that a provider can enforce, and reading a call back from a text. The
conversation that the loop keeps has tool calls like any other; here it becomes the text that the model sees. A reply
goes back letter by letter as the model wrote it, so that a provider's cache fits.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from d2k_agent.models.protocol import Message

THOUGHT_CHARS = 200
"""Where a schema is enforced: room to think before the choice of a tool, and an end to it."""
_FORM = """
You call a tool by answering with one JSON object and nothing behind it:
{"thought": "why, in a sentence or two", "tool": "NAME", "arguments": {...}}
One object is one call; the next message holds its result. An answer without a call is \
{"thought": "...", "done": true}.

The tools, each with the JSON schema of its arguments:"""
_NAMED = re.compile(r'"tool"\s*:\s*"([^"\\]*)"')
_BRACE_OR_QUOTE = re.compile(r'[{}"]')


def as_text(messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> list[Message]:
    """The conversation without native calls: tools are described in its first message, results are the user's words.

    What the user says to a reply that called no tool ends with the form of a call: the reply may have missed it.
    """
    told = [_plain(message) for message in messages]
    for at, (before, message) in enumerate(itertools.pairwise(messages), 1):
        if message.get("role") == "user" and before.get("role") == "assistant" and not before.get("tool_calls"):
            told[at]["content"] = f"{told[at]['content']}\n\n{_reminder(tools)}"
    if not told or told[0].get("role") != "system":
        told.insert(0, {"role": "system", "content": ""})
    told[0] = {**told[0], "content": "\n".join([f"{told[0]['content']}{_FORM}", *map(_described, tools)]).lstrip()}
    return told


def response_format(tools: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The schema of an action, in the form of OpenAI's `response_format`: a call of one of the tools, or none."""
    thought = {"thought": {"type": "string", "maxLength": THOUGHT_CHARS}}
    calls = (
        {**thought, "tool": {"const": tool["function"]["name"]}, "arguments": tool["function"]["parameters"]}
        for tool in tools
    )
    forms = [
        {"type": "object", "properties": form, "required": list(form), "additionalProperties": False}
        for form in (*calls, {**thought, "done": {"const": True}})
    ]
    return {"type": "json_schema", "json_schema": {"name": "action", "strict": True, "schema": {"anyOf": forms}}}


def with_calls(message: Message, number: int) -> Message:
    """Reply number `number` with the calls that its text holds, if it holds any: as many as native calls would be.

    A call that is no whole JSON object has the broken text for its arguments: the loop answers it with an error.
    """
    text = message.get("content")
    found = list(_actions(text)) if isinstance(text, str) else []
    if not found:
        return message
    calls = [
        {
            "id": f"action_{number}_{index}" if index else f"action_{number}",
            "type": "function",
            "function": {"name": name, "arguments": arguments},
        }
        for index, (name, arguments) in enumerate(found)
    ]
    return {**message, "tool_calls": calls}


def _reminder(tools: Sequence[Mapping[str, Any]]) -> str:
    names = [tool["function"]["name"] for tool in tools]
    example = {"thought": "why, in a sentence", "tool": names[0], "arguments": {}}
    return (
        f"A tool call is one whole JSON object with exactly these keys, such as {json.dumps(example)}, where tool is "
        f"one of {', '.join(names)}, and arguments holds what its schema asks for."
    )


def _plain(message: Message) -> Message:
    if message.get("role") == "tool":
        return {"role": "user", "content": f"Result:\n{message['content']}"}
    return {key: value for key, value in message.items() if key != "tool_calls"}


def _described(tool: Mapping[str, Any]) -> str:
    function = tool["function"]
    return f"\n{function['name']}: {function['description']}\n{json.dumps(function['parameters'], ensure_ascii=False)}"


def _actions(text: str) -> Iterator[tuple[str, str]]:
    """Name and arguments of each call in `text`; the words around them are the model's own affair.

    What stands inside of an object is no call, whether that object is one or not. Behind a brace that begins no whole
    object nobody can tell what is inside of it, so that the rest is one broken call, if it names a tool.
    """
    decoder, at = json.JSONDecoder(), 0
    while (start := text.find("{", at)) >= 0:
        try:
            value, at = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            end = _end_of_braces(text, start)
            if end is None:
                named = _NAMED.search(text, start)
                if named is not None:
                    yield named[1], text[start:]
                return
            at = end
        else:
            if isinstance(value.get("tool"), str):
                yield value["tool"], json.dumps(value.get("arguments", {}), ensure_ascii=False)


def _end_of_braces(text: str, start: int) -> int | None:
    """Where braces of prose or of code end, such as {1, 2}; None where nothing closes them, or quotes may hold some."""
    depth = 0
    for match in _BRACE_OR_QUOTE.finditer(text, start):
        if match[0] == '"':
            return None
        depth += 1 if match[0] == "{" else -1
        if depth == 0:
            return match.end()
    return None
