"""What a model can do, found by a few cheap calls: the conversation of the loop in small.

Covers: the calls and what their answers show. Does not cover: making the model, prices, or words for people (reports).
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from d2k_agent.errors import ContextOverflow, ModelError, ProviderAway
from d2k_agent.models.protocol import Message, Model, ModelReply
from d2k_agent.models.quirks import JSON_SCHEMA, JSON_TEXT, NATIVE, Quirks

TOOL = {
    "type": "function",
    "function": {
        "name": "note",
        "description": "Write one word down.",
        "parameters": {
            "type": "object",
            "properties": {"word": {"type": "string", "description": "the word"}},
            "required": ["word"],
            "additionalProperties": False,
        },
    },
}
_RULES = "This is a test of tool calls. Do exactly what you are told, and nothing else."
_ONE = "Call the tool note once, with the word one."
_TWO = "Now call the tool note twice in one reply: with the word two, and with the word three."
SECOND_TURN, CACHE = "second turn", "cache"
"""What may be given up beside a way to call tools."""
LONG_LINES = 500
"""Of about 10 tokens each: more than any provider's smallest prefix that is cached (4,096 tokens)."""

Make = Callable[[Quirks, Callable[[Mapping[str, Any]], None]], Model]
"""Makes the model as given quirks say; the callable is to be given the body of each request as it leaves."""


@dataclass
class Checked:
    """What was found. `calls` is how tools can be called (None: in no way), `parallel` that one reply made two calls
    (None: no second reply came).

    `reasoning_kept`: reasoning that came was sent back with the next request; None where none came. `cache_read_of` are
    the tokens read from a cache and all input tokens of the request that read most; None where nobody counts reads.
    `refusals` say why a way to call tools was given up, and why the second turn or the look for a cache was.
    """

    calls: str | None = None
    parallel: bool | None = None
    reasoning_kept: bool | None = None
    cache_read_of: tuple[int, int] | None = None
    replies: list[ModelReply] = field(default_factory=list)
    refusals: dict[str, str] = field(default_factory=dict)


class _Talk:
    """A conversation with the model as given quirks say; every reply is kept in `checked`."""

    def __init__(self, make: Make, quirks: Quirks, checked: Checked) -> None:
        self.bodies: list[str] = []
        self.messages: list[Message] = [{"role": "system", "content": _RULES}]
        self._model = make(quirks, lambda body: self.bodies.append(json.dumps(body, default=str)))
        self._checked = checked

    def say(self, text: str) -> ModelReply:
        """The reply to one more message of the user's."""
        self.messages.append({"role": "user", "content": text})
        reply = self._model.complete(tuple(self.messages), (TOOL,))
        self._checked.replies.append(reply)
        self.messages.append(reply.message)
        self.messages += [
            {"role": "tool", "tool_call_id": call.get("id"), "content": "noted"} for call in calls_in(reply)
        ]
        return reply


def check(make: Make, quirks: Quirks) -> Checked:
    """Find out what the model can do. `quirks` are what the tables say of it.

    Raises what the model raises for a key, a name or a server that is wrong, and what it raised last where no reply
    came at all. Once tools were called, a failure is a finding.
    """
    checked, ways = Checked(), _ways(quirks.calls)
    for way in ways:
        talk = _Talk(make, dataclasses.replace(quirks, calls=way), checked)
        try:
            if _is_through(talk, checked, way):
                break
        except (ContextOverflow, ProviderAway):
            raise  # no other way would help
        except ModelError as error:
            if way == ways[-1] and not checked.replies:
                raise
            checked.refusals[way] = str(error)
    checked.cache_read_of = _cache(make, quirks, checked)
    return checked


def _is_through(talk: _Talk, checked: Checked, way: str) -> bool:
    """Whether tools can be called in this way, over two turns. Raises ModelError where the model refuses it."""
    first = talk.say(_ONE)
    if not any(map(_is_right, calls_in(first))):
        checked.refusals[way] = "the reply called no tool as it was told to"
        return False
    try:
        second = talk.say(_TWO)
    except (ContextOverflow, ProviderAway) as error:
        checked.refusals[SECOND_TURN] = str(error)
    else:
        checked.parallel = len(calls_in(second)) > 1
        checked.reasoning_kept = _kept(first.message, talk.bodies[-1])
    checked.calls = way
    return True


def calls_in(reply: ModelReply) -> list[dict[str, Any]]:
    """The tool calls of a reply, whole or not."""
    calls = reply.message.get("tool_calls")
    return [call for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []


def _ways(first: str) -> Sequence[str]:
    """Ways to call tools in the order in which they are tried: what the tables say, then what asks less of a model."""
    ways = (NATIVE, JSON_SCHEMA, JSON_TEXT)
    return ways[ways.index(first) :]


def _is_right(call: Mapping[str, Any]) -> bool:
    function = call.get("function") or {}
    try:
        arguments = json.loads(function.get("arguments") or "")
    except (ValueError, TypeError):
        return False
    return function.get("name") == "note" and isinstance(arguments, dict) and isinstance(arguments.get("word"), str)


def _kept(message: Message, body: str) -> bool | None:
    """Whether the reasoning of `message` stands in the body of the next request, None where there is none."""
    marks = list(_marks_of_reasoning(message))
    return all(json.dumps(mark)[1:-1] in body for mark in marks) if marks else None


def _marks_of_reasoning(message: Message) -> Iterator[str]:
    """A text for each piece of reasoning that must go back: what is signed or encrypted, else the words."""
    signed = [
        str(piece[name])
        for pieces in (message.get("thinking_blocks"), message.get("reasoning_items"))
        for piece in pieces or ()
        for name in ("signature", "data", "encrypted_content")
        if piece.get(name)
    ]
    yield from signed
    words = message.get("reasoning_content")
    if not signed and isinstance(words, str) and words.strip():
        yield words


def _cache(make: Make, quirks: Quirks, checked: Checked) -> tuple[int, int] | None:
    """What a cache gave: in the calls so far, else in two long ones that begin alike."""
    unread = any(_reads(checked)) and not any(read for read, _ in _reads(checked))
    if unread and SECOND_TURN not in checked.refusals:
        talk = _Talk(make, dataclasses.replace(quirks, calls=checked.calls or NATIVE), checked)
        lines = "\n".join(f"Line {number} of a text that says nothing." for number in range(1, LONG_LINES + 1))
        talk.messages[0] = {"role": "system", "content": f"{_RULES}\n\n{lines}"}
        try:
            talk.say(_ONE)
            talk.say(_TWO)
        except ModelError as error:
            checked.refusals[CACHE] = str(error)
    return max(_reads(checked), default=None)


def _reads(checked: Checked) -> list[tuple[int, int]]:
    """Tokens read and all input tokens of each reply whose input was split."""
    usages = [reply.usage for reply in checked.replies if reply.usage.known]
    return [
        (
            usage.cache_read or 0,
            sum(count or 0 for count in (usage.uncached_input, usage.cache_write, usage.cache_read)),
        )
        for usage in usages
    ]
