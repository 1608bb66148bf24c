"""Answers of a provider in the form of chat completions, as steps to play."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def native(*words: str, **more: Any) -> dict[str, Any]:
    """An answer that calls note with each of `words`."""
    calls = [
        {"id": f"call_{word}", "type": "function", "function": {"name": "note", "arguments": f'{{"word": "{word}"}}'}}
        for word in words
    ]
    return said("", tool_calls=calls, **more)


def said(
    content: str, usage: Mapping[str, Any] | None = None, finish_reason: str = "stop", **message: Any
) -> dict[str, Any]:
    """An answer of these words, whose message may hold more."""
    whole = {"role": "assistant", "content": content, **message}
    choice = {"index": 0, "message": whole, "finish_reason": finish_reason}
    body = {"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
    return {"status": 200, "body": {**body, "usage": usage or counted(100)}}


def counted(prompt: int, **details: int) -> dict[str, Any]:
    """Usage of a prompt of so many tokens, split as `details` say; without any nobody knows how."""
    counts = {"prompt_tokens": prompt, "completion_tokens": 10, "total_tokens": prompt + 10}
    return {**counts, **({"prompt_tokens_details": details} if details else {})}
