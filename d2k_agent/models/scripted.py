"""A model that says what it was told to say: for the embedded sample, for tests and for dry runs.

It keeps no position of its own. The conversation says how many replies were given, so that a resumed run goes on
where it stopped. Tokens and cost of its replies are unknown: nobody counted them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from d2k_agent.contract.wording import counted
from d2k_agent.errors import ScriptEnded, UsageError
from d2k_agent.models.protocol import Message, ModelReply, replies_so_far
from d2k_agent.models.usage import Usage

Reply = str | Mapping[str, Any]
"""A text, or `{"content": ..., "tool_calls": [...], "finish_reason": ...}`. A call is `{"name": ..., "arguments":
{...}}`, or whole in OpenAI's form; arguments given as a string are sent as they are, broken or not."""

Policy = Callable[[Sequence[Message], Sequence[dict[str, Any]]], Reply]
"""Decides the next reply from the conversation and the tools; may raise what a model raises."""


class ScriptedModel:
    """Plays a list of replies, or asks a policy for each. Raises ScriptEnded beyond the last one."""

    def __init__(self, replies: Sequence[Reply] | Policy, name: str = "scripted/inline") -> None:
        self.name = name
        self._replies = replies

    def complete(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]]) -> ModelReply:
        """The reply whose turn it is, by the number of replies in `messages`."""
        position = replies_so_far(messages)
        reply = self._reply(position, messages, tools)
        message = assistant_message(reply, position)
        finish = reply.get("finish_reason") if isinstance(reply, Mapping) else None
        finish = finish or ("tool_calls" if message.get("tool_calls") else "stop")
        return ModelReply(message, finish, Usage.unknown(), None)

    def _reply(self, position: int, messages: Sequence[Message], tools: Sequence[dict[str, Any]]) -> Reply:
        if callable(self._replies):
            return self._replies(messages, tools)
        if position >= len(self._replies):
            given = counted(len(self._replies), "reply", "replies")
            raise ScriptEnded(f"{self.name} has {given} and all were given; add replies to go on")
        return self._replies[position]


def assistant_message(reply: Reply, position: int) -> Message:
    """The assistant message of one scripted reply; calls without an id get one that depends on the position alone."""
    if isinstance(reply, str):
        return {"role": "assistant", "content": reply}
    message = {key: value for key, value in reply.items() if key != "finish_reason"}
    message = {"role": "assistant", "content": "", **message}
    if "tool_calls" in message:
        calls = enumerate(message["tool_calls"] or (), start=1)
        message["tool_calls"] = [_call(call, f"call_{position + 1}_{number}") for number, call in calls]
    return message


def _call(call: Mapping[str, Any], call_id: str) -> dict[str, Any]:
    if "function" in call:
        return dict(call)
    arguments = call.get("arguments", {})
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return {"id": call_id, "type": "function", "function": {"name": call["name"], "arguments": text}}


def load_script(path: Path) -> list[dict[str, Any]]:
    """The replies in a script file: `{"name": "scripted/...", "replies": [...]}`.

    `{"$file": "part.py"}` anywhere in a reply stands for the text of that file, which lies below the script's folder.
    Raises UsageError that says what is wrong with the file.
    """
    replies = _read(path).get("replies")
    if not isinstance(replies, list) or not all(isinstance(reply, dict) for reply in replies):
        raise UsageError(f'{path}: "replies" must be a list of objects, each {{"content": ..., "tool_calls": [...]}}')
    return [_checked(_with_files(reply, path), number, path) for number, reply in enumerate(replies, start=1)]


def script_name(path: Path) -> str:
    """The model name that a script file gives itself, `scripted/<file name>` where it gives none."""
    return str(_read(path).get("name") or f"scripted/{path.stem}")


def _read(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as problem:
        raise UsageError(f"{path} cannot be read ({problem.strerror}); give the path of a script.json") from None
    except ValueError as problem:
        raise UsageError(f"the script {path} is no JSON ({problem}); correct it") from None
    if not isinstance(data, dict):
        raise UsageError(f'{path}: a script is an object with "name" and "replies"')
    return data


def _with_files(value: Any, script: Path) -> Any:
    if isinstance(value, dict) and set(value) == {"$file"}:
        return _part(script, str(value["$file"]))
    if isinstance(value, dict):
        return {key: _with_files(item, script) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_files(item, script) for item in value]
    return value


def _part(script: Path, name: str) -> str:
    folder = script.parent.resolve()
    part = (folder / name).resolve()
    if not part.is_relative_to(folder):
        raise UsageError(f"{script}: {name} lies outside the script's folder; put it beside the script")
    try:
        return part.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        raise UsageError(f"{script}: part {name} cannot be read ({problem}); correct its name or its text") from None


def _checked(reply: dict[str, Any], number: int, path: Path) -> dict[str, Any]:
    for name, kind, words in (("content", str, "text"), ("finish_reason", str, "text"), ("tool_calls", list, "a list")):
        if not isinstance(reply.get(name), kind | None):
            raise UsageError(f'{path}: reply {number}: "{name}" must be {words}, not {reply[name]!r}')
    for call in reply.get("tool_calls") or ():
        if not isinstance(call, dict) or not ("function" in call or isinstance(call.get("name"), str)):
            raise UsageError(f'{path}: reply {number} has a call without a "name"')
    if not reply.get("content") and not reply.get("tool_calls"):
        raise UsageError(f'{path}: reply {number} is empty; give it "content" or "tool_calls"')
    return reply
