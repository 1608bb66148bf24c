"""The one rule of what is a key: by it keys are passed to a provider, and masked in every text."""

from __future__ import annotations

import re

_WORD_OF_A_KEY = re.compile(
    r"(?:KEYS?|TOKENS?|SECRETS?|PASSWORDS?|PASSWD|PASSPHRASES?|CREDENTIALS?)\d*(?=_|$)", re.IGNORECASE
)
_NUMBER_OF_TOKENS = re.compile(r"(?:^|_)(?:MAX|MIN|NUM|LIMIT)(?:_[A-Z]+)*?_TOKENS(?=_|$)", re.IGNORECASE)


def names_a_key(variable: str) -> bool:
    """Whether an environment variable of this name holds a key: a word of it ends like one.

    WATSONX_APIKEY, AWS_BEARER_TOKEN_BEDROCK, OPENAI_API_KEY_2, HF_TOKENS do; TOKENIZERS_PARALLELISM, MAX_TOKENS,
    LLM_MAX_OUTPUT_TOKENS do not.
    """
    return _WORD_OF_A_KEY.search(_NUMBER_OF_TOKENS.sub("", variable)) is not None
