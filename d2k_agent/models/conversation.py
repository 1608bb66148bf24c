"""Assistant messages on their way in and the conversation on its way out. Pure functions.

In: the whole message is kept, thinking blocks and signatures included; calls get ids that are present and distinct.
Out: what providers refuse to read back is replaced by the same text every time, so that the prefix stays byte-stable.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from typing import Any

from d2k_agent.models.protocol import Message, replies_so_far

EMPTY_REPLY = "(empty reply)"


def accepted_message(dump: Mapping[str, Any] | None, messages: Sequence[Message]) -> Message:
    """The assistant message to keep for a reply to `messages`; `dump` is None when the provider sent no choice.

    Nothing is taken away but an empty list of calls. A call whose id is missing, or was used before in the
    conversation, gets an id made of the reply's number and its own; empty arguments mean none.
    """
    message: Message = {"role": "assistant", "content": "", **copy.deepcopy(dict(dump or {}))}
    if not message.get("tool_calls"):
        message.pop("tool_calls", None)
        return message
    taken = {call.get("id") for earlier in messages for call in earlier.get("tool_calls") or ()}
    for number, call in enumerate(message["tool_calls"], start=1):
        if not call.get("id") or call["id"] in taken:
            call["id"] = f"call_{replies_so_far(messages) + 1}_{number}"
        taken.add(call["id"])
        function = call.get("function") or {}
        if not str(function.get("arguments") or "").strip():
            function["arguments"] = "{}"
    return message


def outgoing_messages(messages: Sequence[Message]) -> list[Message]:
    """A copy of the conversation in which every provider can read what a model said before.

    A broken call goes back as `{"unparsed_arguments": ...}`, since several servers parse the arguments of earlier
    calls and would refuse the conversation for good. A reply without content and calls gets a placeholder.
    """
    return [_outgoing(message) for message in messages]


def cache_points(messages: Sequence[Message]) -> list[int]:
    """Indices of the messages that end a cached prefix, for providers that cache only where they are told to.

    The system message (tools come before it and are covered), the end of the previous request, which is what was
    written last time, and the end of this one. Finding the previous end by lookback is not enough: providers look
    back about twenty blocks, and one reply may ask for more tool results than that.
    """
    replies = [index for index, message in enumerate(messages) if message.get("role") == "assistant"]
    points = {0} if messages and messages[0].get("role") == "system" else set()
    if replies and replies[-1] > 0:
        points.add(replies[-1] - 1)
    return sorted(points | {len(messages) - 1})


def _outgoing(message: Message) -> Message:
    sent = copy.deepcopy(message)
    if sent.get("role") != "assistant":
        return sent
    for call in sent.get("tool_calls") or ():
        arguments = call.get("function", {}).get("arguments")
        if not _is_object(arguments):
            call["function"]["arguments"] = json.dumps({"unparsed_arguments": str(arguments)})
    if not sent.get("tool_calls") and not sent.get("content"):
        sent["content"] = EMPTY_REPLY
    return sent


def _is_object(arguments: Any) -> bool:
    try:
        return isinstance(json.loads(arguments), dict)
    except (TypeError, ValueError):
        return False
