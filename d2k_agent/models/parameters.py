"""What a request really carried beside the conversation, and which wishes did not get there as they were made."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

NOT_PARAMETERS = {"messages", "system", "system_instruction", "contents", "input", "instructions", "tools"}
NAMES = {
    "max_tokens": ("maxtokens", "maxcompletiontokens", "maxoutputtokens", "numpredict", "maxnewtokens"),
    "temperature": ("temperature",),
    "reasoning_effort": ("reasoningeffort", "effort", "thinking", "thinkingconfig", "reasoning", "think"),
}
"""What providers call an option of ours, without case and underscores."""
_TRANSLATED = ("reasoning_effort",)
"""An option whose value each API says in its own way: that it is there is all that can be compared."""


def parameters_of(body: Mapping[str, Any]) -> dict[str, Any]:
    """The body of a request less the conversation and the tools."""
    return {key: value for key, value in body.items() if key not in NOT_PARAMETERS and value not in (None, {}, [])}


def not_as_wished(wishes: Mapping[str, Any], parameters: Mapping[str, Any]) -> tuple[str, ...]:
    """One sentence for each wish that the request did not carry, or carried with another value."""
    found = list(_flat(parameters))
    told = []
    for wish, value in wishes.items():
        sent = [given for name, given in found if name in NAMES[wish]]
        if not sent:
            told.append(f"{wish} was not sent")
        elif wish not in _TRANSLATED and value not in sent:
            told.append(f"{wish} was sent as {sent[0]} instead of {value}")
    return tuple(told)


def _flat(parameters: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in parameters.items():
        yield name.lower().replace("_", ""), value
        if isinstance(value, Mapping):
            yield from _flat(value)
