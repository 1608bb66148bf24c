"""Start, resume and replay runs: puts the parts of a run together and drives it."""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.metadata
import platform
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from d2k_agent import __version__
from d2k_agent.app.evaluation import open_evaluation
from d2k_agent.app.host_tools import host_tools
from d2k_agent.app.inventory import find_run
from d2k_agent.app.modelling import REPLAY, model_name, open_model, recorded_turns, recording
from d2k_agent.app.surroundings import Surroundings
from d2k_agent.config import RunConfig, Settings
from d2k_agent.errors import D2KError, MachineError, UsageError

if TYPE_CHECKING:
    from d2k_agent.catalog import Task
    from d2k_agent.models import Divergence, Model
    from d2k_agent.records import Event, RunFolder, Trace
    from d2k_agent.sandbox import Isolation
    from d2k_agent.toolbox import HostTool, Toolbox

PAPER_TOOLS = ("read", "write", "bash", "submit")


class Watcher(Protocol):
    """Who watches a run."""

    def note(self, text: str) -> None:
        """A sentence about the run as a whole."""

    def step(self, text: str) -> None:
        """What is being done within the step in flight."""

    def past(self, events: Iterable[Event]) -> None:
        """Events from before a resume."""

    def event(self, event: Event) -> None:
        """One event, as it is recorded."""


@dataclass(frozen=True)
class Finished:
    """A run that ended by its own rules. `divergences` is None unless its model replays a recording."""

    run_dir: Path
    trace: Trace
    divergences: Sequence[Divergence] | None


class Interrupted(KeyboardInterrupt):
    """Ctrl-C in a run; the text says how to go on with it."""


def solve(
    around: Surroundings, task_name: str, command_line: Settings, levels: str, any_levels: bool, watcher: Watcher
) -> Finished:
    """A new run of the task, driven to its end.

    Raises UsageError before anything is written, MachineError or ModelError (naming the way to resume) later.
    """
    from d2k_agent.catalog import find_task, parse_levels

    settings = around.settings(command_line)
    task = find_task(task_name)
    chosen = parse_levels(levels, any_levels=any_levels)
    config = settings.resolve(_task_reference(task), model_name(around, settings, task.slug), chosen)
    return _start(around, settings, task, config, watcher)


def replay(around: Surroundings, name: str, command_line: Settings, watcher: Watcher) -> Finished:
    """A new run in which the replies that the run `name` recorded drive the real loop again."""
    from d2k_agent.catalog import find_task

    settings = around.settings(command_line)
    recorded = find_run(around, settings, name)
    config = dataclasses.replace(
        recorded.read_record().config,
        model=f"{REPLAY}{recorded.path.resolve()}",
        target=settings.target,
        device=settings.device or "auto",
        unsafe_no_sandbox=bool(settings.unsafe_no_sandbox),
    )
    return _start(around, settings, find_task(config.task), config, watcher)


def resume(around: Surroundings, name: str, command_line: Settings, watcher: Watcher) -> Finished:
    """Go on with an interrupted run. Raises UsageError for one that is over, or that is being driven."""
    from d2k_agent.catalog import find_task
    from d2k_agent.records import read_trace

    settings = around.settings(command_line)
    run = find_run(around, settings, name)
    trace = read_trace(run.path)
    if trace.finished is not None:
        raise UsageError(
            f"{run.path.name} is over ({trace.finished.stop_reason}); look at it with `d2k-agent trace show {name}`, "
            "or start a new one with `d2k-agent solve`"
        )
    config = trace.run.config
    task = find_task(config.task)
    if task.bundle().digest != trace.run.task_digest:
        raise UsageError(
            f"the files of {task.slug} changed since {run.path.name} began; restore them, or start a new run"
        )
    watcher.past(trace.events)
    return _drive(around, settings, task, run, config, watcher)


def _task_reference(task: Task) -> str:
    """What run.json says of the task: a slug where the catalog has it, else the folder, found from anywhere."""
    from d2k_agent.catalog import tasks_dir

    folder = task.folder.resolve()
    return task.slug if folder.parent == tasks_dir().resolve() else str(folder)


def _start(around: Surroundings, settings: Settings, task: Task, config: RunConfig, watcher: Watcher) -> Finished:
    from d2k_agent.catalog import staged_files
    from d2k_agent.records import RunFolder, RunRecord

    model = open_model(around, config, watcher.note)
    isolation = _isolation(config)
    files = staged_files(task, config.levels)
    path = _new_folder(around, settings, task, config)
    record = RunRecord(
        run_id=path.name,
        config=config,
        task_slug=task.slug,
        task_digest=task.bundle().digest,
        workloads=tuple(workload.label for workload in task.workloads),
        staged={name: hashlib.sha256(data).hexdigest() for name, data in sorted(files.items())},
        isolation={"kind": isolation.kind, **isolation.details},
        versions=_versions(),
    )
    run = RunFolder.create(path, record)
    return _drive(around, settings, task, run, config, watcher, model, isolation)


def _new_folder(around: Surroundings, settings: Settings, task: Task, config: RunConfig) -> Path:
    if settings.run_dir is not None:
        path = around.folder / settings.run_dir
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise UsageError(
                f"{path} is not empty; name a new folder, or go on with a run by `d2k-agent resume {path}`"
            )
        return path
    levels = "".join(config.levels) or "none"
    name = f"{datetime.now().astimezone():%Y%m%d-%H%M%S}-{task.slug}-{levels}-{secrets.token_hex(3)}"
    return around.runs_folder(settings) / name


def _isolation(config: RunConfig) -> Isolation:
    from d2k_agent.sandbox import Isolation, probe

    if config.unsafe_no_sandbox:
        return Isolation("none", {})
    isolation = probe()
    if isolation.kind == "none":
        raise MachineError(
            "this system offers no isolation that works, so nothing was started; `d2k-agent doctor` says what is "
            "missing, and --unsafe-no-sandbox runs everything with your own rights"
        )
    return isolation


def _versions() -> dict[str, str]:
    versions = {"d2k-agent": __version__, "python": platform.python_version()}
    for name in ("torch", "triton", "langgraph", "litellm"):
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions


def _drive(
    around: Surroundings,
    settings: Settings,
    task: Task,
    run: RunFolder,
    config: RunConfig,
    watcher: Watcher,
    model: Model | None = None,
    isolation: Isolation | None = None,
) -> Finished:
    """Drive a run from where it stands, and say in every error and on Ctrl-C how to go on."""
    from d2k_agent.agent import run_agent
    from d2k_agent.models import compare
    from d2k_agent.records import read_trace

    model = model or open_model(around, config, watcher.note)
    isolation = isolation or _isolation(config)
    watcher.note(f"run folder {run.path}")
    wishes = dataclasses.replace(
        settings, target=config.target, device=config.device, unsafe_no_sandbox=config.unsafe_no_sandbox
    )
    try:
        _stage(task, run, config)
        with open_evaluation(around, wishes, task, watcher.step) as evaluation:
            toolbox = _toolbox(run, config, isolation, host_tools(evaluation, run.workspace))
            run_agent(run, config, model, toolbox, watcher.event)
    except KeyboardInterrupt:
        raise Interrupted(f"ended by Ctrl-C; go on with `d2k-agent resume {run.path}`") from None
    except UsageError:
        raise
    except D2KError as error:
        raise type(error)(f"{error} (then go on with `d2k-agent resume {run.path}`)") from error
    trace = read_trace(run.path)
    replays = config.model.startswith(REPLAY)
    divergences = compare(recorded_turns(recording(config.model)), trace.messages()) if replays else None
    return Finished(run.path, trace, divergences)


def _stage(task: Task, run: RunFolder, config: RunConfig) -> None:
    """Give the agent its files, unless it has begun to work with them."""
    from d2k_agent.catalog import staged_files
    from d2k_agent.records import write_atomically

    if run.events.exists() and run.events.stat().st_size:
        return
    for name, data in staged_files(task, config.levels).items():
        write_atomically(run.workspace / name, data)


def _toolbox(run: RunFolder, config: RunConfig, isolation: Isolation, host: Mapping[str, HostTool]) -> Toolbox:
    from d2k_agent.catalog import tools_dir
    from d2k_agent.sandbox import Sandbox
    from d2k_agent.toolbox import Toolbox, load_tools

    specs = load_tools(tools_dir())
    if config.protocol == "paper":
        specs = {name: spec for name, spec in specs.items() if name in PAPER_TOOLS}
    return Toolbox(specs, Sandbox(isolation, run.workspace), run.workspace, host, {})
