"""Variables by which LiteLLM asks another server than the provider's: what none of a run's options says.

Covers: finding one that is set, and the refusal. Does not cover: providers whose every account has an address of its
own, which such a variable gives.
"""

from __future__ import annotations

from collections.abc import Mapping

from d2k_agent.errors import UsageError

PROXY = "USE_LITELLM_PROXY"
"""Makes LiteLLM ask a server of its own for every model: neither names nor keys nor prices are the provider's."""


def refuse_proxy(environ: Mapping[str, str]) -> None:
    """Raise UsageError where every request would go to LiteLLM's own server."""
    if environ.get(PROXY, "").strip().lower() == "true":
        raise UsageError(
            f"{PROXY} is set, so that LiteLLM would ask a server that no run records, at prices that nobody knows; "
            "unset it, and name that server: --model litellm_proxy/NAME --api-base URL"
        )
