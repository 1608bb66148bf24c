"""Tool calls for models that have none: one JSON object in a reply's text is one call.

Covers: what such a model is told, the schema that a provider can enforce, and reading a call back from a text. The
conversation that the loop keeps has tool calls like any other; here it becomes the text that the model sees. A reply
goes back letter by letter as the model wrote it, so that a provider's cache fits.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
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
_BEGUN = re.compile(r'"tool"\s*:\s*"([^"\\]*)"(?:\s*,\s*"arguments"\s*:\s*(.*))?', re.DOTALL)


def as_text(messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> list[Message]:
    """The conversation without native calls: tools are described in its first message, results are the user's words."""
    told = [_plain(message) for message in messages]
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
    """Reply number `number` with the call that its text holds, if it holds one.

    A call that began and is no whole JSON keeps the broken text for its arguments: the loop answers it with an error.
    """
    text = message.get("content")
    found = _action(text) if isinstance(text, str) else None
    if found is None:
        return message
    name, arguments = found
    function = {"name": name, "arguments": arguments}
    return {**message, "tool_calls": [{"id": f"action_{number}", "type": "function", "function": function}]}


def _plain(message: Message) -> Message:
    if message.get("role") == "tool":
        return {"role": "user", "content": f"Result:\n{message['content']}"}
    return {key: value for key, value in message.items() if key != "tool_calls"}


def _described(tool: Mapping[str, Any]) -> str:
    function = tool["function"]
    return f"\n{function['name']}: {function['description']}\n{json.dumps(function['parameters'], ensure_ascii=False)}"


def _action(text: str) -> tuple[str, str] | None:
    """Name and arguments of the first call in `text`; the words before it are the model's own affair."""
    decoder = json.JSONDecoder()
    for start in (match.start() for match in re.finditer(r"\{", text)):
        try:
            value, _ = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict) and isinstance(value.get("tool"), str):
            arguments = value.get("arguments", {})
            return value["tool"], json.dumps(arguments, ensure_ascii=False)
    begun = _BEGUN.search(text)
    return None if begun is None else (begun[1], begun[2] or "")
