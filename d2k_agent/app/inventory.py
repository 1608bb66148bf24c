"""The runs that lie here: find one by name, list, follow, stop and remove them."""

from __future__ import annotations

import os
import shutil
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from d2k_agent.app.surroundings import Surroundings
from d2k_agent.config import Settings
from d2k_agent.errors import D2KError, UsageError
from d2k_agent.reports.paths import command, nearby
from d2k_agent.reports.runs import RunSummary

if TYPE_CHECKING:
    from d2k_agent.records import Event, RunFolder, Trace

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
    names = [run.path.name for run in runs_in(folder)]
    found = [item for item in names if item == name] or [item for item in names if item.endswith(f"-{name}")]
    if len(found) == 1:
        return RunFolder(folder / found[0])
    if found:
        raise UsageError(f"{name!r} could be {', '.join(found)}; name one of them in full")
    if path.is_dir():
        raise UsageError(f"{path} is no run's folder (no run.json); `d2k-agent runs list` names the runs in {folder}")
    raise UsageError(f"there is no run {name!r}; `d2k-agent runs list` names the runs in {folder}")


def list_runs(around: Surroundings, command_line: Settings) -> list[RunSummary]:
    """Every run in the runs folder, by name (and so by time). One that cannot be read is listed as damaged."""
    folder = around.runs_folder(around.settings(command_line))
    return [_summary(run) for run in runs_in(folder)]


def runs_in(folder: Path) -> list[RunFolder]:
    """The runs that lie in `folder`, by name; none where it is no folder."""
    from d2k_agent.records import RunFolder

    runs = [RunFolder(path) for path in sorted(folder.iterdir())] if folder.is_dir() else []
    return [run for run in runs if run.exists or _closed(run.path)]


def _closed(path: Path) -> bool:
    """True for a folder into which this user cannot look."""
    return os.path.isdir(path) and not os.access(path, os.R_OK | os.X_OK)


def _size(folder: Path) -> int | None:
    """Bytes in `folder`, None where a part of it cannot be read. A live run's files come and go meanwhile."""
    failures: list[OSError] = []
    used = 0
    for parent, _, names in os.walk(folder, onerror=failures.append):
        for name in names:
            try:
                used += os.lstat(os.path.join(parent, name)).st_size
            except OSError as error:
                failures.append(error)
    return used if all(isinstance(error, FileNotFoundError) for error in failures) else None


def _summary(run: RunFolder) -> RunSummary:
    from d2k_agent.records import read_trace

    used = _size(run.path)
    try:
        trace = read_trace(run.path)
        driven = run.driver() is not None
    except (D2KError, OSError):  # a line of the list says so; the other runs are listed all the same
        return RunSummary(run.path.name, str(run.path), "damaged", None, None, None, None, used)
    finished = trace.finished
    if finished is not None:
        outcome = finished.stop_reason.value
    else:
        outcome = "running" if driven else "interrupted"
    config = trace.run.config
    return RunSummary(
        run.path.name, str(run.path), outcome, trace.turns, config.model, trace.run.task_slug, config.levels, used
    )


def remove(around: Surroundings, name: str, command_line: Settings) -> Path:
    """Remove a run's folder, also what its agent closed. Raises UsageError for a run that is being driven.

    What cannot be removed raises OSError, and the run can be named again: run.json goes last.
    """
    run = find_run(around, around.settings(command_line), name)
    driver = run.driver()
    if driver is not None:
        raise UsageError(f"{run.path.name} is running (process {driver.pid}); end it first: `{command('stop', name)}`")
    with run.drive():
        _open_up(run.path)
        for entry in sorted(run.path.iterdir(), key=lambda entry: entry == run.run_json):
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            else:
                entry.unlink()
        run.path.rmdir()
    return run.path


def _open_up(folder: Path) -> None:
    """Let the owner into `folder` and every folder below it, so that it can be emptied."""
    os.chmod(folder, os.stat(folder).st_mode | stat.S_IRWXU)
    for parent, names, _ in os.walk(folder):
        for name in names:
            path = os.path.join(parent, name)
            if not os.path.islink(path):
                # Set before the walk goes into it.
                os.chmod(path, os.lstat(path).st_mode | stat.S_IRWXU)


def stop(around: Surroundings, name: str, command_line: Settings) -> str:
    """Ask a running run to end, or end one that nobody drives any more; returns what comes of it.

    Nothing that the run began with has to be here for that: no model, no evaluator, no isolation. Raises UsageError for
    a run that is over.
    """
    run = find_run(around, around.settings(command_line), name)
    if run.driver() is not None:
        run.request_stop()
        return f"{run.path.name} was asked to stop: it ends with a selection after the step in flight"
    from d2k_agent.agent import end_run
    from d2k_agent.records import read_trace
    from d2k_agent.reports.outcome import outcome_text

    finished = read_trace(run.path).finished
    if finished is not None:
        raise UsageError(
            f"{run.path.name} is over ({finished.stop_reason}), so there is nothing to stop; "
            f"`{command('trace', 'show', name)}` shows it, `{command('runs', 'rm', name)}` removes it"
        )
    run.require_own_files()
    end_run(run)
    told = outcome_text(nearby(run.path, around.folder), read_trace(run.path))
    return f"{run.path.name} was interrupted, and is ended for good.\n\n{told}"


def so_far(around: Surroundings, name: str, command_line: Settings) -> Trace:
    """The run as it is recorded now."""
    from d2k_agent.records import read_trace

    return read_trace(find_run(around, around.settings(command_line), name).path)


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
