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


@dataclass(frozen=True)
class Window:
    """The context window of `model` in tokens, None where no row says it."""

    model: str
    tokens: int | None = None

    def require_room(self, messages: Sequence[Message], last: ModelReplied | None, shortened: int) -> None:
        """Raise ContextOverflow where a request with `messages` would surely not fit.

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
        if about - _UNSURE * abs(new) > self.tokens:
            raise ContextOverflow(
                f"the conversation no longer fits {self.model}: the next request has about {about:,} tokens, and "
                f"its row in the table of models says context_tokens = {self.tokens}; a larger context would hold it"
            )
