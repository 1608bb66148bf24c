"""Runs with a scripted model, and runs as they are recorded, for the tests of commands about runs."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from d2k_agent.records import Event, EventLog, RunFolder, RunRecord
from tests.reports.curved import record

PATIENCE_S = 60.0


def call(name: str, **arguments: Any) -> dict[str, Any]:
    """A reply that calls one tool."""
    return {"content": f"calling {name}", "tool_calls": [{"name": name, "arguments": arguments}]}


def script(folder: Path, *replies: dict[str, Any]) -> str:
    """The name of a model that gives these replies."""
    path = folder / "script.json"
    path.write_text(json.dumps({"name": "scripted/test", "replies": list(replies)}))
    return f"scripted/{path}"


def recorded(folder: Path, name: str, *events: Event, run: RunRecord | None = None) -> Path:
    """A run of these events among the runs of `folder`."""
    path = folder / "traces" / "runs" / name
    with EventLog(RunFolder.create(path, run or record(name)).events) as log:
        log.append(*events)
    return path


def events(run: Path) -> list[dict[str, Any]]:
    """What is in a run's log now; a line still being written is left out."""
    log = run / "events.jsonl"
    lines = log.read_bytes().split(b"\n")[:-1] if log.exists() else []
    return [json.loads(line) for line in lines]


def wait_for(condition: Callable[[], bool], what: str) -> None:
    """Return once `condition` holds."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.05)
