"""What a server of one's own says about the models that it serves: one request to its list of models."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Mapping
from typing import Any

WINDOW_FIELDS = ("max_model_len", "n_ctx", "context_length", "context_window", "max_context_length")
"""What servers call the context window, in tokens: vLLM, llama.cpp, and others."""
_LIMIT_S = 5.0
_MOST_BYTES = 4_000_000


def served_context_tokens(api_base: str, model: str, key: str | None) -> int | None:
    """The context window that the server at `api_base` names for `model`; None where it names none.

    Where its list has one model under another name, that is the one: such a server takes any name.
    """
    request = urllib.request.Request(f"{api_base.rstrip('/')}/models")
    if key is not None:
        request.add_unredirected_header("Authorization", f"Bearer {key}")  # the key goes to this server alone
    try:
        with urllib.request.urlopen(request, timeout=_LIMIT_S) as answer:
            listed = json.loads(answer.read(_MOST_BYTES))["data"]
        entries = [entry for entry in listed if isinstance(entry, Mapping)]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    named = [entry for entry in entries if entry.get("id") == model] or (entries if len(entries) == 1 else [])
    return _window(named[0]) if named else None


def _window(entry: Mapping[str, Any]) -> int | None:
    meta = entry.get("meta")
    for source in (entry, meta if isinstance(meta, Mapping) else {}):
        for field in WINDOW_FIELDS:
            value = source.get(field)
            if isinstance(value, int) and not isinstance(value, bool) and value > 0:
                return value
    return None
