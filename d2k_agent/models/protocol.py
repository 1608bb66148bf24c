"""What the loop knows of a model: one verb, one answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from d2k_agent.models.usage import Usage

Message = dict[str, Any]
"""One message of a conversation in OpenAI's chat form; an assistant message is kept whole, whatever else it holds."""


@dataclass(frozen=True)
class CachePlan:
    """What a request wants of the provider's cache, and what may be expected of it.

    `points` are the indices of the messages that end a cached prefix; none where the provider caches by itself
    (`marks` False). An entry lives `ttl_s` seconds from its last use. A prefix below `least_tokens` is not cached, and
    what is cached is a multiple of `step_tokens`. `gap_s` is the time since the request before, None where this process
    made none. `why` is the arithmetic that chose `ttl_s`, where that changed.
    """

    marks: bool
    points: tuple[int, ...]
    ttl_s: int
    least_tokens: int = 0
    step_tokens: int = 1
    gap_s: float | None = None
    why: str = ""


@dataclass(frozen=True)
class ModelReply:
    """One reply.

    `message` is the whole assistant message, to be sent back unchanged. `cost_usd` is None when the price or the
    usage is unknown, never 0 for that. `parameters` is what the request really carried beside messages and tools;
    `not_as_wished` says, a sentence each, which options it did not carry as they were given. `seconds` spans all
    attempts. `unknown_attempts` counts attempts without an answer that the provider may have billed: with one of
    them, a total is a lower bound. `cache` is the plan that the request went out with, None where nothing is cached.
    """

    message: Message
    finish_reason: str | None
    usage: Usage
    cost_usd: float | None
    parameters: dict[str, Any] = field(default_factory=dict)
    not_as_wished: tuple[str, ...] = ()
    seconds: float = 0.0
    attempts: int = 1
    unknown_attempts: int = 0
    cache: CachePlan | None = None


class Model(Protocol):
    """Anything that continues a conversation."""

    @property
    def name(self) -> str:
        """The model's name as given on the command line."""

    def complete(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]]) -> ModelReply:
        """The next reply to `messages`; `tools` are schemas in OpenAI's form. Neither argument is changed.

        Raises UsageError (missing or refused key, refused model name), ContextOverflow, ScriptEnded, or another
        ModelError when the provider failed for good; each says how many attempts may have been billed.
        """


def replies_so_far(messages: Sequence[Message]) -> int:
    """How many replies a conversation holds: the position of the next one, also after a resume."""
    return [message.get("role") for message in messages].count("assistant")
