"""How many tokens a text has, counted on this machine: for bounds and plans, never for a bill.

One encoding serves every model, so a count is an estimate of what a provider counts. The encoding's file is the copy
that litellm's package holds: the tokenizer's own library would fetch it from the network.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from d2k_agent.errors import MachineError
from d2k_agent.models.litellm_data import package_folder

ENCODING = "o200k_base"
_FOLDER_VARIABLE = "TIKTOKEN_CACHE_DIR"


def count_tokens(text: str) -> int:
    """The tokens of `text`. Raises MachineError where the encoding's file is missing."""
    return len(_encode()(text))


def count_message(message: dict[str, Any]) -> int:
    """About how many tokens a message, or a tool's schema, takes in a request: those of its JSON form."""
    return count_tokens(json.dumps(message, ensure_ascii=False))


def count_content(message: dict[str, Any]) -> int:
    """The tokens of the texts that a message carries: its content, and the names and arguments of its calls.

    Reasoning is left out, since not every provider gets it back, and so is what JSON adds: providers count neither.
    """
    content = message.get("content") or ""
    parts = [content] if isinstance(content, str) else [str(part.get("text") or "") for part in content]
    for call in message.get("tool_calls") or ():
        parts += call["function"]["name"], call["function"]["arguments"]
    return sum(map(count_tokens, parts))


@cache
def _encode() -> Callable[[str], Sequence[int]]:
    folder = package_folder()
    tokenizers = None if folder is None else folder / "litellm_core_utils" / "tokenizers"
    if tokenizers is None or not tokenizers.is_dir():
        raise MachineError("litellm's copy of the token encodings is not there; run `make env` to install litellm anew")
    # Set for the whole process, as litellm itself does when it is imported.
    os.environ[_FOLDER_VARIABLE] = str(tokenizers)
    import tiktoken

    return tiktoken.get_encoding(ENCODING).encode_ordinary
