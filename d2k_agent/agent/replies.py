"""From what a model answered to what goes back to it and what is executed.

Covers: repairing an assistant message so that every provider takes it back (distinct call ids, parsable arguments,
some content), and the calls it requests. Does not cover: executing them, or unknown tools (the toolbox answers those).
Everything else in the message is kept as it came: thinking blocks carry signatures.
"""

from __future__ import annotations

import json
from collections.abc import Container
from dataclasses import dataclass, field
from typing import Any

from d2k_agent.agent import prompt
from d2k_agent.models import Message

CALLS_PER_REPLY = 32
EMPTY_REPLY = "(empty reply)"


@dataclass(frozen=True)
class RequestedCall:
    """One tool call of a reply. `refusal` is the sentence the model gets instead of a result; None: it is executed."""

    id: str
    name: str
    arguments: dict[str, Any]
    refusal: str | None = None


@dataclass
class RepairedReply:
    """A message that can be sent back, what was changed in it, and which of its calls are not executed and why."""

    message: Message
    repairs: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)


def repair(message: Message, finish_reason: str | None, number: int, taken: Container[str]) -> RepairedReply:
    """Repair reply number `number`; ids in `taken` were used earlier in the conversation.

    The result depends on the arguments alone. With finish_reason "length" the last call is never executed, also where
    it parses: nobody can tell whether it is whole.
    """
    reply = RepairedReply(plain_json(message))
    if reply.message.get("role") != "assistant":
        reply.message = {**reply.message, "role": "assistant"}
    calls = reply.message.get("tool_calls")
    if isinstance(calls, list) and calls:
        reply.message["tool_calls"] = _repair_calls(reply, calls, number, taken)
        last = reply.message["tool_calls"][-1]["id"]
        if finish_reason == "length":
            reply.refused[last] = prompt.CUT_CALL
    else:
        reply.message.pop("tool_calls", None)
        _repair_content(reply)
    return reply


def requested_calls(message: Message, refused: dict[str, str]) -> tuple[RequestedCall, ...]:
    """The calls of a repaired message, in the model's order."""
    return tuple(
        RequestedCall(
            call["id"],
            call["function"]["name"],
            json.loads(call["function"]["arguments"]),
            refused.get(call["id"]),
        )
        for call in message.get("tool_calls", ())
    )


def plain_json(value: Any) -> Any:
    """`value` as every JSON reader takes it: lone surrogates become U+FFFD, numbers that are not finite null.

    Raises TypeError for what is no JSON data.
    """
    text = json.dumps(value, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return json.loads(text, parse_constant=lambda _: None)


def _repair_content(reply: RepairedReply) -> None:
    """A reply without calls must say something: some providers refuse an empty assistant message."""
    content = reply.message.get("content")
    if (isinstance(content, str) and content.strip()) or (isinstance(content, list) and content):
        return
    refusal = reply.message.get("refusal")
    reply.message["content"] = refusal if isinstance(refusal, str) and refusal.strip() else EMPTY_REPLY
    reply.repairs.append("content was empty")


def _repair_calls(reply: RepairedReply, calls: list[Any], number: int, taken: Container[str]) -> list[dict[str, Any]]:
    ids = _distinct_ids(reply, calls, number, taken)
    repaired = []
    seen: set[tuple[str, str, str]] = set()
    for index, (call, call_id) in enumerate(zip(calls, ids, strict=True)):
        whole = _object(call)
        function = _object(whole.get("function"))
        arguments, problem = _arguments(function.get("arguments"))
        if arguments != function.get("arguments"):
            reply.repairs.append(f"tool_calls[{index}].arguments: {problem or 'empty, read as {}'}")
        if problem:
            reply.refused[call_id] = prompt.bad_arguments(problem)
        if index >= CALLS_PER_REPLY:
            reply.refused[call_id] = prompt.too_many_calls(CALLS_PER_REPLY)
        name = function.get("name")
        function = {**function, "name": name if isinstance(name, str) else "", "arguments": arguments}
        given = whole.get("id")
        if isinstance(given, str) and given:
            # One call told twice: a stream that was sent again. Two calls under one id differ in something else.
            if (given, function["name"], arguments) in seen:
                reply.refused[call_id] = prompt.DUPLICATE_CALL
            seen.add((given, function["name"], arguments))
        repaired.append({**whole, "id": call_id, "type": "function", "function": function})
    return repaired


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _distinct_ids(reply: RepairedReply, calls: list[Any], number: int, taken: Container[str]) -> list[str]:
    given = [_object(call).get("id") for call in calls]
    ids: list[str] = []
    for index, call_id in enumerate(given):
        if isinstance(call_id, str) and call_id and call_id not in taken and call_id not in ids:
            ids.append(call_id)
            continue
        reply.repairs.append(f"tool_calls[{index}].id was {call_id!r}")
        fresh = f"call_{number}_{index}"
        while fresh in taken or fresh in ids or fresh in given:
            fresh += "x"
        ids.append(fresh)
    return ids


def _arguments(given: Any) -> tuple[str, str | None]:
    """Arguments as a JSON object in text, and what was wrong with them. A broken text is kept inside of the object."""
    if given is None or (isinstance(given, str) and not given.strip()):
        return "{}", None
    if isinstance(given, dict):
        return json.dumps(given, ensure_ascii=False), None
    text = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
    problem = _not_an_object(text)
    return (text, None) if problem is None else (json.dumps({"unparsed": text}, ensure_ascii=False), problem)


def _not_an_object(text: str) -> str | None:
    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is no JSON number")

    try:
        value = json.loads(text, parse_constant=refuse)
    except ValueError as problem:
        return str(problem)
    except RecursionError:
        return "it is nested too deeply"
    return None if isinstance(value, dict) else f"it is a JSON {type(value).__name__}"
