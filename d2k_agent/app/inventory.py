"""The runs that lie here: find one by name, list, follow, stop and remove them."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from d2k_agent.app.surroundings import Surroundings
from d2k_agent.config import Settings
from d2k_agent.errors import MachineError, UsageError
from d2k_agent.reports.runs import RunSummary

if TYPE_CHECKING:
    from d2k_agent.records import Event, RunFolder

POLL_S = 0.2


def find_run(around: Surroundings, settings: Settings, name: str) -> RunFolder:
    """The run called `name`: a folder, the name of one among the runs, or the end of such a name after a dash.

    Raises UsageError when there is none, or more than one.
    """
    from d2k_agent.records import RunFolder

    path = around.folder / name
    if RunFolder(path).exists:
        return RunFolder(path)
    folder = around.runs_folder(settings)
    names = sorted(item.name for item in folder.iterdir() if RunFolder(item).exists) if folder.is_dir() else []
    found = [item for item in names if item == name] or [item for item in names if item.endswith(f"-{name}")]
    if len(found) == 1:
        return RunFolder(folder / found[0])
    if found:
        raise UsageError(f"{name!r} could be {', '.join(found)}; name one of them in full")
    if path.is_dir():
        raise UsageError(f"{path} is no run's folder (no run.json); `d2k-agent runs list` names the runs in {folder}")
    raise UsageError(f"there is no run {name!r}; `d2k-agent runs list` names the runs in {folder}")


def list_runs(around: Surroundings, command_line: Settings) -> list[RunSummary]:
    """Every run in the runs folder, by name (and so by time)."""
    from d2k_agent.records import RunFolder

    folder = around.runs_folder(around.settings(command_line))
    runs = [RunFolder(path) for path in sorted(folder.iterdir())] if folder.is_dir() else []
    return [_summary(run) for run in runs if run.exists]


def _summary(run: RunFolder) -> RunSummary:
    from d2k_agent.records import read_trace

    used = sum(path.lstat().st_size for path in run.path.rglob("*") if path.is_file())
    try:
        trace = read_trace(run.path)
    except MachineError:
        return RunSummary(run.path.name, str(run.path), "damaged", None, None, None, None, used)
    finished = trace.finished
    if finished is not None:
        outcome = finished.stop_reason.value
    else:
        outcome = "running" if run.driver() else "interrupted"
    config = trace.run.config
    return RunSummary(
        run.path.name, str(run.path), outcome, trace.turns, config.model, trace.run.task_slug, config.levels, used
    )


def remove(around: Surroundings, name: str, command_line: Settings) -> Path:
    """Remove a run's folder. Raises UsageError for a run that is being driven."""
    run = find_run(around, around.settings(command_line), name)
    driver = run.driver()
    if driver is not None:
        raise UsageError(f"{run.path.name} is running (process {driver.pid}); end it first: `d2k-agent stop {name}`")
    with run.drive():
        shutil.rmtree(run.path)
    return run.path


def stop(around: Surroundings, name: str, command_line: Settings) -> str:
    """Ask a running run to end; returns what will happen. Raises UsageError for a run that nobody drives."""
    run = find_run(around, around.settings(command_line), name)
    if run.driver() is None:
        raise UsageError(f"{run.path.name} is not running, so there is nothing to stop (see `d2k-agent runs list`)")
    run.request_stop()
    return f"{run.path.name} was asked to stop: it ends with a selection after the step in flight"


def events(around: Surroundings, name: str, command_line: Settings, *, follow: bool) -> Iterator[Event]:
    """The run's events in order. With `follow` also those to come, until the run ends or nobody drives it."""
    from d2k_agent.records import RunFinished, read_events

    run = find_run(around, around.settings(command_line), name)
    run.read_record()
    offset, driven = 0, True
    while True:
        found, offset = read_events(run.events, offset) if run.events.exists() else ([], offset)
        yield from found
        if not follow or not driven or any(isinstance(event, RunFinished) for event in found):
            return
        if not found:
            # Asked before the next read: what a driver wrote last is read once more after it has gone.
            driven = run.driver() is not None
            time.sleep(POLL_S)
