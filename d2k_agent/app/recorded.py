"""What a recorded run may decide for the command that takes it up: its folder may be a stranger's."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from d2k_agent.app.choosing_model import REPLAY, SCRIPTED
from d2k_agent.contract import source_sha256
from d2k_agent.errors import UsageError
from d2k_agent.reports.paths import command

if TYPE_CHECKING:
    from pathlib import Path

    from d2k_agent.catalog import Task
    from d2k_agent.config import RunConfig, Settings
    from d2k_agent.records import RunRecord


def task_of(record: RunRecord, named: str | None) -> Task:
    """The task of a run: the one that ships, else the one that the user named: its Python is run unconfined.

    Raises UsageError where neither is there, and where another task was named.
    """
    from d2k_agent.catalog import find_task, shipped_task

    if named is not None:
        task = find_task(named)
        if task.bundle().digest != record.task_digest:
            raise UsageError(
                f"{named} is not the task that {record.run_id} began with, or has changed since; name that one with "
                "--task, or start a new run"
            )
        return task
    shipped = shipped_task(record.config.task)
    if shipped is None:
        unnamed = _unnamed_task(record)
        raise UsageError(f"{unnamed.why}; {unnamed.option}")
    return shipped


@dataclass(frozen=True)
class _Difference:
    """What a run began with and the command does not say: why it is to be said, and how (empty: not at all)."""

    why: str
    option: str


def require_same_options(record: RunRecord, settings: Settings, named_task: str | None, name: str) -> None:
    """Raise UsageError unless the user says again what a record alone may not decide: all that is missing, at once.

    `name` is the run as the user called it, `named_task` the task.
    """
    differ = [item for item in _differences(record, settings, named_task) if item is not None]
    if not differ:
        return
    (first, *more), whys = differ, "; ".join(item.why for item in differ)
    if more:
        line = resume_command(record.config, name)
        raise UsageError(f"{whys}; if you trust this run's record, resume it with `{line}`, or start a new run")
    raise UsageError(f"{whys}; {first.option}, or start a new run")


def _differences(record: RunRecord, settings: Settings, named_task: str | None) -> Iterator[_Difference | None]:
    from d2k_agent.catalog import shipped_task

    yield _unnamed_task(record) if named_task is None and shipped_task(record.config.task) is None else None
    yield _other_evaluator(record.config, settings)
    yield _other_server(record.config, settings)
    yield _other_sandbox(record.config, settings)


def _unnamed_task(record: RunRecord) -> _Difference:
    why = f"the task of {record.run_id} does not ship, and its Python is run with your own rights"
    return _Difference(why, f"look at it, then name it with {shlex.join(['--task', record.config.task])}")


def _other_evaluator(config: RunConfig, settings: Settings) -> _Difference | None:
    """The program that a record names is run only when the user names it too."""
    began_with, given = config.evaluator or "", settings.evaluator or ""
    if began_with == given:
        return None
    where = f"through {began_with!r}" if began_with else "on its own machine"
    why = f"this run began with an evaluator {where}, and results of two machines are not to be mixed"
    return _Difference(why, f"resume it with {shlex.join(['--evaluator', began_with])}")


def _other_server(config: RunConfig, settings: Settings) -> _Difference | None:
    """The user's key is sent to the server that a record names only when the user names it too."""
    if config.model.startswith((SCRIPTED, REPLAY)):
        return None
    servers, given = servers_of(config), settings.api_base or ""
    if servers == [given]:
        return None
    if len(servers) > 1:
        raise UsageError(f"this run's record names {' and '.join(servers)}, and your key goes to one; start a new run")
    where = f"the server {servers[0]}" if servers[0] else "the provider's own server"
    why = f"this run began with {where}, and your key goes only where you say"
    return _Difference(why, f"resume it with {shlex.join(['--api-base', servers[0]])}")


def servers_of(config: RunConfig) -> list[str]:
    """The addresses that the run's requests may go to; an empty one is the provider's own.

    Some models have an address in their name.
    """
    in_name = re.search(r"https?:.*", config.model, re.IGNORECASE | re.DOTALL)
    named = [config.model_options.api_base, in_name and in_name[0]]
    return sorted({address for address in named if address}) or [""]


def _other_sandbox(config: RunConfig, settings: Settings) -> _Difference | None:
    if config.unsafe_no_sandbox and not settings.unsafe_no_sandbox:
        why = "this run gave up the sandbox: tools and candidates have your own rights"
        return _Difference(why, "resume it with --unsafe-no-sandbox if you trust it")
    if settings.unsafe_no_sandbox and not config.unsafe_no_sandbox:
        return _Difference("this run began with a sandbox and keeps it", "leave --unsafe-no-sandbox out")
    return None


def resume_command(config: RunConfig, folder: Path | str) -> str:
    """The line that goes on with the run in `folder`: it names all that is not taken from the folder."""
    from d2k_agent.catalog import shipped_task

    words: list[str | Path] = ["resume", folder]
    if shipped_task(config.task) is None:
        words += ["--task", config.task]
    if config.evaluator is not None:
        words += ["--evaluator", config.evaluator]
    words += [word for server in servers_of(config) if server for word in ("--api-base", server)]
    words += ["--unsafe-no-sandbox"] * config.unsafe_no_sandbox
    return command(*words)


def require_same_task(record: RunRecord, task: Task) -> None:
    """Raise UsageError where `task` or its baseline is not what the run began with."""
    if task.bundle().digest != record.task_digest:
        raise UsageError(f"{task.slug} has changed since {record.run_id} began; restore its files or start a new run")
    if record.baseline_sha256 not in (None, baseline_sha256(task)):
        raise UsageError(
            f"the baseline of {task.slug} has changed since {record.run_id} began, and speedups over two baselines are "
            "not to be mixed; restore it or start a new run"
        )


def baseline_sha256(task: Task) -> str | None:
    """The source that speedups at the task are over, None where it has none."""
    baseline = task.baseline_text()
    return None if baseline is None else source_sha256(baseline)
