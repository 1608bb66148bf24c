"""The one rule of what is a key: by it keys are passed to a provider, and masked in every text."""

from __future__ import annotations

import re

_WORD_OF_A_KEY = re.compile(r"(?:KEYS?|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)\d*(?=_|$)", re.IGNORECASE)


def names_a_key(variable: str) -> bool:
    """Whether an environment variable of this name holds a key: a word of it ends like one.

    WATSONX_APIKEY, AWS_BEARER_TOKEN_BEDROCK, OPENAI_API_KEY_2 do; TOKENIZERS_PARALLELISM, MAX_TOKENS do not.
    """
    return _WORD_OF_A_KEY.search(variable) is not None
