"""Whether the next request fits into the model's context, where the table of models says how much that holds.

Covers: the estimate, and the refusal of a request that would be too long. Some servers cut such a request without a
word, so it is not sent. Does not cover: a window that only the provider knows; then it is the provider that refuses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from d2k_agent.errors import ContextOverflow
from d2k_agent.models import Message
from d2k_agent.models.tokens import count_content
from d2k_agent.records import ModelReplied

_UNSURE = 0.2
"""The part of our own count that another tokenizer may do without."""
_FULL = 0.99
"""The part of a window at which a reply is cut: some servers keep a few tokens back."""


@dataclass(frozen=True)
class Window:
    """The context window of `model` in tokens, which a request and its reply share; None where no row says it."""

    model: str
    tokens: int | None = None

    def require_room(
        self, messages: Sequence[Message], last: ModelReplied | None, shortened: int, reply_tokens: int | None = None
    ) -> None:
        """Raise ContextOverflow where a request with `messages` would surely not fit.

        Where the conversation can be shortened, `reply_tokens` is the room to leave for a reply, and a request that
        would probably not leave it is refused, too; None where nothing is gained by refusing early.
        `last` is the reply before, None before the first, and `shortened` the tokens that were taken out since. What
        the provider counted of its request is taken as it is, and what came since is counted here; where it counted
        nothing, it has to refuse the request itself.
        """
        before = None if last is None else last.usage.input_tokens
        if self.tokens is None or last is None or before is None:
            return
        at = max(index for index, message in enumerate(messages) if message.get("role") == "assistant")
        reply, *since = map(count_content, messages[at:])
        # Calls that were read out of the content stand there twice.
        reply = reply if last.usage.output is None else min(reply, last.usage.output)
        new = reply + sum(since) - shortened
        about = before + new
        least = about - _UNSURE * abs(new) if reply_tokens is None else about + reply_tokens
        if least > self.tokens:
            room = f", a reply may have {reply_tokens:,}" if reply_tokens else ""
            raise ContextOverflow(
                f"the conversation no longer fits {self.model}: the next request has about {about:,} tokens{room}, and "
                f"its row in the table of models says context_tokens = {self.tokens}; a larger context would hold "
                "it, or --protocol efficient, which shortens old results"
            )

    def cut(self, reply: ModelReplied | None) -> bool:
        """Whether `reply` ends where the window does, and so is not all that the model had to say."""
        if self.tokens is None or reply is None or reply.finish_reason != "length":
            return False
        taken = (reply.usage.input_tokens, reply.usage.output)
        return None not in taken and sum(tokens or 0 for tokens in taken) >= _FULL * self.tokens
