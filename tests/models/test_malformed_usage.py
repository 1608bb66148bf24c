"""A provider whose report of tokens is none: the reply is kept, and what it took is unknown."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

from d2k_agent.models.usage import Usage

Case = Callable[[str], dict[str, Any]]
Client = Callable[..., Any]


@pytest.mark.parametrize(
    "usage",
    [
        {"prompt_tokens": "many", "completion_tokens": 5, "total_tokens": 5},
        {"prompt_tokens": -5, "completion_tokens": 5, "total_tokens": 0},
        {"prompt_tokens": 10, "completion_tokens": None, "total_tokens": 10},
        {"prompt_tokens": 10, "completion_tokens": [3], "total_tokens": 13},
        {"prompt_tokens": 10, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": "x"}},
        [1, 2],
        "lots",
        None,
    ],
)
def test_a_reply_whose_usage_is_malformed_is_kept_and_its_usage_unknown(usage: Any, case: Case, client: Client) -> None:
    good = case("B01a")["responses"][0]
    asked = client([{**good, "body": {**good["body"], "usage": usage}}])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", module="pydantic._internal")
        reply = asked.ask()
    assert (reply.usage, reply.cost_usd, reply.attempts) == (Usage.unknown(), None, 1)
    (choice,) = good["body"]["choices"]
    assert (reply.message["content"], reply.finish_reason) == (choice["message"]["content"], choice["finish_reason"])
