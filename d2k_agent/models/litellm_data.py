"""What LiteLLM's package says of names, providers and prices, read from its files: importing it takes seconds.

Covers: the provider that a model's name means and LiteLLM's price list, as far as its files alone tell. Does not cover:
what only its code knows; then the answer is None, and litellm_client.py asks it.
"""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from d2k_agent.errors import UsageError
from d2k_agent.models.price_lists import ModelNames

_PRICES = "model_prices_and_context_window_backup.json"
_MORE_PROVIDERS = "llms/openai_like/providers.json"
_PROVIDERS = re.compile(r"^class LlmProviders\(str, Enum\):\n((?:    .*\n|\n)+)", re.MULTILINE)
_PROVIDER = re.compile(r'^    \w+ = "([^"]+)"', re.MULTILINE)
_RULES = "fallback_generalizations"
"""Where the price list has patterns of names that no list need have."""
_READS_THE_REST = (
    "azure",
    "bedrock_mantle",
    "chatgpt",
    "github_copilot",
    "cohere",
    "anthropic_text",
    "ai21",
    "ragflow",
)
"""Providers of which LiteLLM's code decides by the rest of the name."""
_WITHOUT_PREFIX = ("openai", "anthropic")
"""Providers whose models are called by the bare name that the price list has."""


def package_folder() -> Path | None:
    """Where LiteLLM's files are, None where it is not installed."""
    found = importlib.util.find_spec("litellm")
    folders = (found.submodule_search_locations or ()) if found else ()
    return next((Path(folder) for folder in folders), None)


def known_names(given: str) -> ModelNames | None:
    """What a model goes by in price lists, None where only LiteLLM's code can say."""
    prefix, slash, rest = given.partition("/")
    if slash and prefix in _providers():
        decided = rest and prefix not in _READS_THE_REST and not rest.endswith("-latest")
        return ModelNames(given, prefix, rest) if decided else None
    provider = _entries().get(given, {}).get("litellm_provider")
    decided = provider in _WITHOUT_PREFIX and ":" not in given
    return ModelNames(given, provider, given) if decided else None


def is_no_model(given: str) -> bool:
    """True where LiteLLM cannot place the name: no provider is before its slash, no list has it, no rule fits."""
    prefix, slash, _ = given.partition("/")
    if not _providers() or not _entries() or (slash and prefix in _providers()):
        return False
    if {given, f"vertex_ai/{given}"} & _entries().keys():
        return False
    if ":" in given or given == "*" or given.startswith(("gpt-image", "amazon_nova")):
        return False
    if re.search(rf"[\"']{re.escape(given)}[\"']", _text("constants.py") + _text("__init__.py")):
        return False
    rules = (rule for rule in _entries().get(_RULES, {}).get("rules", ()) if "litellm_provider" in rule["model_info"])
    return not any(re.search(rule["pattern"], given, re.IGNORECASE) for rule in rules)


def no_provider(given: str) -> UsageError:
    """The refusal of a name that LiteLLM cannot place."""
    return UsageError(
        f"no provider is known for the model {given!r}; give PROVIDER/NAME, for example anthropic/claude-..., "
        "or openai/NAME with --api-base for a server of your own"
    )


@cache
def cost_map() -> Mapping[str, Any] | None:
    """LiteLLM's price list by model, None where it cannot be read. An alias has the entry of what it stands for."""
    entries = _entries()
    return {name: entries.get(entry.get("alias_of"), entry) for name, entry in entries.items()} or None


@cache
def _entries() -> dict[str, Any]:
    try:
        entries: dict[str, Any] = json.loads(_text(_PRICES) or "{}")
    except ValueError:
        return {}
    return entries


@cache
def _providers() -> frozenset[str]:
    found = _PROVIDERS.search(_text("types/utils.py"))
    try:
        more = json.loads(_text(_MORE_PROVIDERS) or "{}")
    except ValueError:
        return frozenset()
    return frozenset([*_PROVIDER.findall(found[1]), *more]) if found else frozenset()


def _text(path: str) -> str:
    """One of LiteLLM's files, empty where it is not there."""
    folder = package_folder()
    try:
        return "" if folder is None else (folder / path).read_text(encoding="utf-8")
    except OSError:
        return ""
