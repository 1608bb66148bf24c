"""A stranger's record: messages and tools without what every reader takes for granted are refused in a sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from d2k_agent.errors import MachineError
from d2k_agent.records import EventLog, read_events
from tests.reports.curved import turns_of

CALL = {"id": "a", "type": "function", "function": {"name": "read", "arguments": "{}"}}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("tools", [{}]),
        ("tools", [{"function": {"name": 3}}]),
        ("message", {"role": "assistant", "tool_calls": 5}),
        ("message", {"role": "assistant", "tool_calls": [1]}),
        ("message", {"role": "assistant", "tool_calls": [{**CALL, "id": None}]}),
        ("message", {"role": "assistant", "tool_calls": [{**CALL, "function": {"name": "read"}}]}),
        ("messages", [{"role": "user", "tool_calls": [{}]}]),
    ],
)
def test_a_log_with_a_strangers_message_or_tool_is_refused_in_a_sentence(
    tmp_path: Path, field: str, value: Any
) -> None:
    path = tmp_path / "events.jsonl"
    with EventLog(path) as log:
        log.append(*turns_of([2.0]))
    assert read_events(path)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    changed = [{**line, **({field: value} if field in line else {})} for line in lines]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in changed))
    with pytest.raises(MachineError, match=r"event \d+ .* cannot be read \(Value error, .*tool"):
        read_events(path)
