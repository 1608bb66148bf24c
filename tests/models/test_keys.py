"""Which variables of the environment hold keys, by their names alone."""

from __future__ import annotations

import pytest

from d2k_agent.models.keys import names_a_key


@pytest.mark.parametrize(
    "name",
    [
        *("OPENAI_API_KEY", "OPENAI_API_KEY_2", "WATSONX_APIKEY", "AWS_BEARER_TOKEN_BEDROCK", "AZURE_TOKENS"),
        *("HF_TOKENS", "HF_TOKENS_2", "hf_token", "VAULT_SECRETS", "DB_PASSWORDS", "SSH_PASSPHRASE"),
        *("GOOGLE_APPLICATION_CREDENTIALS", "MAX_API_KEY", "MAX_TOKENS_API_KEY"),
    ],
)
def test_a_key_is_known_by_its_name(name: str) -> None:
    assert names_a_key(name)


@pytest.mark.parametrize(
    "name",
    [
        "MAX_TOKENS",
        "LLM_MAX_OUTPUT_TOKENS",
        "MIN_NEW_TOKENS",
        "NUM_TOKENS",
        "TOKENIZERS_PARALLELISM",
        "KEYBOARD",
        "PATH",
    ],
)
def test_a_number_of_tokens_is_no_key(name: str) -> None:
    assert not names_a_key(name)
