"""What was really sent, in each API's own words."""

from __future__ import annotations

from typing import Any

import pytest

from d2k_agent.models.parameters import not_as_wished, parameters_of


@pytest.mark.parametrize(
    "sent",
    [
        {"max_tokens": 100, "temperature": 0.5, "reasoning_effort": "low"},
        {"max_completion_tokens": 100, "temperature": 0.5, "reasoning": {"effort": "low"}},
        {"generationConfig": {"maxOutputTokens": 100, "temperature": 0.5, "thinkingConfig": {"thinkingBudget": 1024}}},
        {"inferenceConfig": {"maxTokens": 100, "temperature": 0.5}, "additional": {"thinking": {"type": "enabled"}}},
    ],
)
def test_an_option_is_found_by_the_name_that_the_api_has_for_it(sent: dict[str, Any]) -> None:
    assert not_as_wished({"max_tokens": 100, "temperature": 0.5, "reasoning_effort": "low"}, sent) == ()


def test_an_option_that_is_missing_or_has_another_value_is_said() -> None:
    told = not_as_wished({"max_tokens": 100, "temperature": 0.5, "reasoning_effort": "low"}, {"max_tokens": 128})
    assert told == (
        "max_tokens was sent as 128 instead of 100",
        "temperature was not sent",
        "reasoning_effort was not sent",
    )


def test_the_conversation_and_the_tools_are_no_parameters() -> None:
    body = {"model": "m", "messages": [1], "input": [1], "tools": [1], "seed": 0, "metadata": {}, "stop": None}
    assert parameters_of(body) == {"model": "m", "seed": 0}
