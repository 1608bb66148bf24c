"""What a recorded message and a recorded tool must have, so that every reader of a run may rely on it.

Covers: the shape of what is read back. Does not cover: what a model may answer (the agent repairs that before it is
recorded).
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator

from d2k_agent.models import Message


def _with_whole_calls(message: Message) -> Message:
    calls = message.get("tool_calls", [])
    if not isinstance(calls, list | tuple):
        raise ValueError("tool_calls is no list")
    for call in calls:
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(function, dict):
            raise ValueError("a tool call has no function")
        if not all(
            isinstance(value, str) for value in (call.get("id"), function.get("name"), function.get("arguments"))
        ):
            raise ValueError("id, name and arguments of a tool call must be text")
    return message


def _with_a_name(tool: dict[str, Any]) -> dict[str, Any]:
    function = tool.get("function")
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        raise ValueError("a tool has no function with a name")
    return tool


RecordedMessage = Annotated[Message, AfterValidator(_with_whole_calls)]
"""A message whose tool calls, where it has any, have an id, a name and arguments, each a text."""
RecordedTool = Annotated[dict[str, Any], AfterValidator(_with_a_name)]
"""A tool's schema, which has the tool's name."""
