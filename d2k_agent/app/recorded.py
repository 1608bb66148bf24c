"""What a recorded run may decide for the command that takes it up: its folder may be a stranger's."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

from d2k_agent.app.modelling import REPLAY, SCRIPTED
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
        raise UsageError(
            f"the task of {record.run_id} does not ship, and its Python is run with your own rights: look at it, then "
            f"name it with {shlex.join(['--task', record.config.task])}"
        )
    return shipped


def require_same_server(config: RunConfig, settings: Settings) -> None:
    """Raise UsageError unless the user names the server that the run's record does: the user's key is sent there."""
    if config.model.startswith((SCRIPTED, REPLAY)):
        return
    servers, given = servers_of(config), settings.api_base or ""
    if servers == [given]:
        return
    if len(servers) > 1:
        raise UsageError(f"this run's record names {' and '.join(servers)}, and your key goes to one; start a new run")
    where = f"the server {servers[0]}" if servers[0] else "the provider's own server"
    raise UsageError(
        f"this run began with {where}, and your key goes only where you say; resume it with "
        f"{shlex.join(['--api-base', servers[0]])}, or start a new run"
    )


def servers_of(config: RunConfig) -> list[str]:
    """The addresses that the run's requests may go to; an empty one is the provider's own.

    Some models have an address in their name.
    """
    in_name = re.search(r"https?:.*", config.model, re.IGNORECASE | re.DOTALL)
    named = [config.model_options.api_base, in_name and in_name[0]]
    return sorted({address for address in named if address}) or [""]


def require_same_sandbox(config: RunConfig, settings: Settings) -> None:
    """Raise UsageError where the run gave up the sandbox and the user does not, or the other way round."""
    if config.unsafe_no_sandbox and not settings.unsafe_no_sandbox:
        raise UsageError(
            "this run gave up the sandbox: tools and candidates have your own rights; resume it with "
            "--unsafe-no-sandbox if you trust it, or start a new run"
        )
    if settings.unsafe_no_sandbox and not config.unsafe_no_sandbox:
        raise UsageError(
            "this run began with a sandbox and keeps it; leave --unsafe-no-sandbox out, or start a new run"
        )


def resume_command(config: RunConfig, folder: Path) -> str:
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
