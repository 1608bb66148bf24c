"""Whether the next request fits into the model's context, where the table of models says how much that holds.

Covers: the estimate, and the refusal of a request that would be too long. Some servers cut such a request without a
word, so it is not sent. Does not cover: a window that only the provider knows; then it is the provider that refuses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from d2k_agent.errors import ContextOverflow
from d2k_agent.models import Message
from d2k_agent.models.tokens import count_message
from d2k_agent.records import ModelReplied


@dataclass(frozen=True)
class Window:
    """The context window of `model` in tokens of input, None where no row says it."""

    model: str
    tokens: int | None = None

    def require_room(self, messages: Sequence[Message], last: ModelReplied | None, shortened: int) -> None:
        """Raise ContextOverflow where a request with `messages` would not fit.

        `last` is the reply before, None before the first, and `shortened` the tokens that were taken out since. What
        the provider counted of its request is taken as it is, and what came since is counted here; where it counted
        nothing, it has to refuse the request itself.
        """
        before = None if last is None else last.usage.input_tokens
        if self.tokens is None or last is None or before is None:
            return
        at = max(index for index, message in enumerate(messages) if message.get("role") == "assistant")
        reply, *since = map(count_message, messages[at:])
        # Encrypted reasoning is longer as a text than what the provider counts of it.
        reply = reply if last.usage.output is None else min(reply, last.usage.output)
        about = before - shortened + reply + sum(since)
        if about > self.tokens:
            raise ContextOverflow(
                f"the conversation no longer fits {self.model}: the next request has about {about:,} tokens, and its "
                f"row in the table of models says context_tokens = {self.tokens}; a larger context would hold it"
            )
