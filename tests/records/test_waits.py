"""The recorded wait for a GPU: one reader, which takes seconds and nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from d2k_agent.errors import MachineError
from d2k_agent.records import QUEUED_S, EventLog, ToolFinished, queued_s, read_events


def profiled(**data: Any) -> ToolFinished:
    return ToolFinished(turn=1, index=0, call_id="p", name="profile", status="ok", text="", seconds=9.0, data=data)


@pytest.mark.parametrize(("data", "seconds"), [({}, 0.0), ({QUEUED_S: 3}, 3.0), ({QUEUED_S: 0.5}, 0.5)])
def test_a_wait_is_read_in_seconds_and_none_is_0(data: dict[str, Any], seconds: float) -> None:
    assert queued_s(profiled(**data)) == seconds


NO_WAITS = ["abc", None, [1], {"s": 1}, True, -1.0, float("inf"), float("nan"), 10**400]


@pytest.mark.parametrize("wait", NO_WAITS, ids=lambda wait: repr(wait)[:8])
def test_what_is_no_number_of_seconds_is_no_wait_however_it_got_into_the_event(wait: Any) -> None:
    with pytest.raises(ValueError, match=r"queued_s is .* no number of seconds"):
        profiled(queued_s=wait)
    with pytest.raises(ValueError, match=r"queued_s is .* no number of seconds"):
        queued_s(profiled().model_copy(update={"data": {QUEUED_S: wait}}))


@pytest.mark.parametrize("wait", NO_WAITS, ids=lambda wait: repr(wait)[:8])
def test_a_log_with_a_strangers_wait_is_refused_in_a_sentence(tmp_path: Path, wait: Any) -> None:
    path = tmp_path / "events.jsonl"
    with EventLog(path) as log:
        log.append(profiled(queued_s=1234.25))
    path.write_text(path.read_text().replace("1234.25", json.dumps(wait)))
    with pytest.raises(MachineError, match=r"event 1 .* cannot be read .*queued_s is .* no number of seconds"):
        read_events(path)
