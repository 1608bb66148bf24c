"""Variables by which LiteLLM asks another server than the provider's: what none of a run's options says.

Covers: finding one that is set, and the refusal. Does not cover: providers whose every account has an address of its
own, which such a variable gives.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from d2k_agent.errors import UsageError

PROXY = "USE_LITELLM_PROXY"
"""Makes LiteLLM ask a server of its own for every model: neither names nor keys nor prices are the provider's."""
_ADDRESS = re.compile(r"([A-Z0-9]+)_(?:[A-Z0-9]+_)*(?:API_BASE|BASE_URL)")
"""How LiteLLM names them: the provider's name, or its first word, comes first."""
_OTHER_WORDS = {"huggingface": "HF", "volcengine": "ARK", "vertex": "VERTEXAI", "chatgpt": "OPENAI"}
_OF_AN_ACCOUNT = ("azure", "databricks", "watsonx", "snowflake")
"""Providers of which no two users have the same address; their prices hold for all of them."""


def refuse_proxy(environ: Mapping[str, str]) -> None:
    """Raise UsageError where every request would go to LiteLLM's own server."""
    if environ.get(PROXY, "").strip().lower() == "true":
        raise UsageError(
            f"{PROXY} is set, so that LiteLLM would ask a server that no run records, at prices that nobody knows; "
            "unset it, and name that server: --model litellm_proxy/NAME --api-base URL"
        )


def refuse_redirects(model: str, provider: str | None, environ: Mapping[str, str]) -> None:
    """Raise UsageError where a variable that is set sends the requests for `model` of `provider` elsewhere.

    A variable counts by its name, whether or not this version of LiteLLM reads it.
    """
    words = re.split(r"[-_]", (provider or "").lower())
    if words[0] in _OF_AN_ACCOUNT:
        return
    stems = {word.upper() for word in words} | {_OTHER_WORDS[word] for word in words if word in _OTHER_WORDS}
    for name, value in sorted(environ.items()):
        found = _ADDRESS.fullmatch(name)
        if value and found and found[1] in stems:
            raise UsageError(
                f"{name} is set, so that requests for {model} would go to a server that no run records, at prices that "
                "nobody knows; unset it, and name the server of a new run with --api-base"
            )
