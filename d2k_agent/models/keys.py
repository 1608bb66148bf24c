"""What is a key, by which keys are passed to a provider and masked in every text, and which one a provider wants."""

from __future__ import annotations

import re
from typing import Any

from d2k_agent.errors import UsageError

_WORD_OF_A_KEY = re.compile(
    r"(?:KEYS?|TOKENS?|SECRETS?|PASSWORDS?|PASSWD|PASSPHRASES?|CREDENTIALS?)\d*(?=_|$)", re.IGNORECASE
)
_NUMBER_OF_TOKENS = re.compile(r"(?:^|_)(?:MAX|MIN|NUM|LIMIT)(?:_[A-Z]+)*?_TOKENS(?=_|$)", re.IGNORECASE)

_VARIABLES = {
    "anthropic": ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"),
    "cerebras": ("CEREBRAS_API_KEY",),
    "cohere": ("COHERE_API_KEY",),
    "deepinfra": ("DEEPINFRA_API_KEY",),
    "deepseek": ("DEEPSEEK_API_KEY",),
    "fireworks_ai": ("FIREWORKS_AI_API_KEY", "FIREWORKS_API_KEY", "FIREWORKSAI_API_KEY", "FIREWORKS_AI_TOKEN"),
    "gemini": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "groq": ("GROQ_API_KEY",),
    "mistral": ("MISTRAL_API_KEY",),
    "moonshot": ("MOONSHOT_API_KEY",),
    "nvidia_nim": ("NVIDIA_NIM_API_KEY",),
    "openai": ("OPENAI_API_KEY",),
    "openrouter": ("OPENROUTER_API_KEY",),
    "together_ai": ("TOGETHERAI_API_KEY",),
    "xai": ("XAI_API_KEY",),
}
"""Providers that want one key, and what LiteLLM takes it from. Of every other one LiteLLM itself says what it wants."""


def variables_of_key(provider: str | None) -> tuple[str, ...]:
    """The variables of which one must hold the provider's key; none where only LiteLLM can say."""
    return _VARIABLES.get(provider or "", ())


def no_key(model: str, variables: str) -> UsageError:
    """The refusal of a model whose key is in none of `variables`, in words."""
    return UsageError(f"no key for {model}: set {variables}, then run the command again")


def told(value: Any) -> str:
    """A wrong value in a sentence: what may hold a key, which is any text, by its kind alone."""
    kinds: dict[type, str] = {str: "a string", list: "a list", dict: "an object"}
    return kinds.get(type(value)) or str(value)


def names_a_key(variable: str) -> bool:
    """Whether an environment variable of this name holds a key: a word of it ends like one.

    WATSONX_APIKEY, AWS_BEARER_TOKEN_BEDROCK, OPENAI_API_KEY_2, HF_TOKENS do; TOKENIZERS_PARALLELISM, MAX_TOKENS,
    LLM_MAX_OUTPUT_TOKENS do not.
    """
    return _WORD_OF_A_KEY.search(_NUMBER_OF_TOKENS.sub("", variable)) is not None
