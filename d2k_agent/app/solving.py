"""Start, resume and replay runs."""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.metadata
import platform
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from d2k_agent import __version__
from d2k_agent.app.ceilings import KnownCeilings
from d2k_agent.app.choosing_model import (
    REPLAY,
    ChosenModel,
    choose_model,
    files_to_keep,
    kept_model,
    load_library,
    note_on_price,
    note_on_quirks,
    notes_on,
    open_model,
    price_of,
    quirks_for,
    refuse_early,
    refuse_unused,
    worded_as_recorded,
)
from d2k_agent.app.driving import Assembly, Finished, Watcher
from d2k_agent.app.inventory import find_run
from d2k_agent.app.launching import require_gpu, surely_on_a_cpu, wants_gpu
from d2k_agent.app.recorded import (
    baseline_sha256,
    require_same_options,
    require_same_task,
    task_of,
)
from d2k_agent.app.stopping import EarlyEnd, early_end
from d2k_agent.app.surroundings import Surroundings
from d2k_agent.app.tool_sets import offered_tools
from d2k_agent.config import RunConfig, Settings
from d2k_agent.errors import MachineError, UsageError
from d2k_agent.isolation import gpu_devices
from d2k_agent.reports.paths import command, nearby

if TYPE_CHECKING:
    from threading import Thread

    from d2k_agent.catalog import Task
    from d2k_agent.records import RunRecord, StopReason
    from d2k_agent.sandbox import Isolation

VERSIONS = ("torch", "triton", "langgraph", "litellm")


def solve(
    around: Surroundings, task_name: str, command_line: Settings, levels: str, any_levels: bool, watcher: Watcher
) -> Finished:
    """A new run of the task, driven to its end.

    Raises UsageError before anything is written, MachineError or ModelError (naming the way to resume) later.
    """
    require_linux(platform.system())
    from d2k_agent.catalog import find_task, parse_levels

    settings = around.settings(command_line)
    task = find_task(task_name)
    chosen = parse_levels(levels, any_levels=any_levels)
    _refuse_options(settings.resolve(_task_reference(task), settings.model or "", chosen))
    model = choose_model(around, settings, task.slug)
    refuse_unused(command_line, model)
    config = settings.resolve(_task_reference(task), model.name, chosen)
    early = early_end(config, task, KnownCeilings(around).every)
    return _start(around, settings, task, config, model, watcher, f"solving {task_name}", early)


def _refuse_options(config: RunConfig) -> None:
    """Raise UsageError for an option that is wrong whatever the model is, before one is asked for."""
    from d2k_agent.study import parse_policy

    offered_tools(config)
    if config.stop_policy is not None:
        parse_policy(config.stop_policy)


def replay(
    around: Surroundings, name: str, command_line: Settings, watcher: Watcher, task_name: str | None = None
) -> Finished:
    """A new run in which the replies that the run `name` recorded drive the real loop again.

    `task_name` is the task as the user named it, which one that does not ship has to be.
    """
    require_linux(platform.system())
    settings = around.settings(command_line)
    recorded = find_run(around, settings, name)
    model = ChosenModel(f"{REPLAY}{recorded.path.resolve()}")
    record = recorded.read_record()
    task, was = task_of(record, task_name), record.config
    wishes = settings.over(Settings(device=was.device))
    config = dataclasses.replace(
        was,
        task=_task_reference(task),
        model=model.name,
        # Recorded replies cost nothing anew, and take another time.
        budget_usd=None,
        budget_tokens={},
        budget_wall_s=None,
        budget_working_s=None,
        stop_policy=None,
        target=settings.target or was.target,
        device=wishes.device or "auto",
        # The recording's are those of the machine that made it.
        gpu=wishes.gpu,
        evaluator=settings.evaluator or None,
        unsafe_no_sandbox=bool(settings.unsafe_no_sandbox),
        # A replay is no further run of the study that the recording belongs to.
        arm=None,
        pair=None,
        replicate=None,
    )
    return _start(around, settings, task, config, model, watcher, f"replaying {name}")


def resume(
    around: Surroundings, name: str, command_line: Settings, watcher: Watcher, task_name: str | None = None
) -> Finished:
    """Go on with an interrupted run. `task_name` is the task as the user named it, see task_of().

    Raises UsageError for one that is over, that is being driven, or whose circumstances have changed.
    """
    require_linux(platform.system())
    from d2k_agent.records import ModelReplied, read_trace, request_gaps_s

    settings = around.settings(command_line)
    run = find_run(around, settings, name)
    driver = run.driver()
    if driver is not None:
        raise UsageError(
            f"{run.path.name} is running (process {driver.pid}); wait for it, or `{command('stop', name)}`"
        )
    trace = read_trace(run.path)
    if trace.finished is not None:
        raise UsageError(_over(run.path.name, trace.finished.stop_reason, name))
    config = trace.run.config
    require_same_options(trace.run, settings, task_name, name)
    task = task_of(trace.run, task_name)
    run.require_own_files()
    require_same_task(trace.run, task)
    try:
        early = early_end(config, task, lambda: trace.run.ceilings)
    except UsageError as problem:
        raise UsageError(
            f"the record of {run.path.name} is no longer what it was ({problem}): restore its run.json, or start a new "
            "run with `d2k-agent solve`"
        ) from None
    _require_its_gpu(around, trace.run)
    refuse_early(around, config)
    watcher.begin(f"resuming {name}")
    isolation = require_isolation(_probe(), config.unsafe_no_sandbox)
    _require_same_isolation(trace.run, isolation)
    _loaded(load_library(config), watcher)
    kept = kept_model(config, run.path)
    gaps_s = request_gaps_s(trace.events)
    usages = [event.usage for event in trace.events if isinstance(event, ModelReplied)]
    model = open_model(around, config, kept, trace.run.price, trace.run.quirks, watcher.note, gaps_s, usages)
    if run.withdraw_stop():
        watcher.note("an earlier request to stop this run was never obeyed; it is withdrawn")
    watcher.past(trace.events)
    stopping = None if early is None else early.rule()
    return Assembly(around, settings, task, config, model, isolation, watcher, stopping).drive(run)


def _over(run: str, reason: StopReason, name: str) -> str:
    end = f"{run} is over ({reason})"
    if reason == "stop_requested":
        end += ": `d2k-agent stop` ends a run for good, with a selection; Ctrl-C interrupts one that is to go on"
    return f"{end}; look at it with `{command('trace', 'show', name)}`, or start a new one with `d2k-agent solve`"


def require_linux(system: str) -> None:
    """Raise MachineError on any other system; `system` as platform.system() names it."""
    if system != "Linux":
        raise MachineError(
            f"{system} is not supported, since the Linux kernel confines tools and candidates, so nothing was started; "
            "use a Linux machine, container or virtual machine"
        )


def require_isolation(isolation: Isolation, unsafe_no_sandbox: bool) -> Isolation:
    """`isolation`, when there is one or its absence was accepted. Raises MachineError that says what to do."""
    if isolation.kind == "none" and not unsafe_no_sandbox:
        raise MachineError(
            "this system offers no isolation that works, so nothing was started; `d2k-agent doctor` says what is "
            "missing, and --unsafe-no-sandbox runs everything with your own rights"
        )
    return isolation


def _probe() -> Isolation:
    from d2k_agent.sandbox import probe

    return probe()


def _loaded(loading: Thread | None, watcher: Watcher) -> None:
    """Wait for the providers' library, None where none is needed."""
    if loading is not None:
        watcher.step("loading LiteLLM")
        loading.join()
        watcher.step("")


def _require_same_isolation(record: RunRecord, isolation: Isolation) -> None:
    began_with = record.isolation.get("kind")
    if began_with != isolation.kind:
        raise UsageError(
            f"{record.run_id} began under the isolation {began_with}, this machine offers {isolation.kind}; results of "
            "the two are not to be mixed: resume it where it began, or start a new run"
        )


def _require_its_gpu(around: Surroundings, record: RunRecord) -> None:
    config = record.config
    if wants_gpu(config) and config.evaluator is None and not gpu_devices():
        raise UsageError(
            f"{record.run_id} is judged on a GPU, and this machine has none; resume it on one that has, or start a new "
            "run without --gpu and --device cuda"
        )
    require_gpu(around, config)


def _task_reference(task: Task) -> str:
    """What run.json says of the task: a slug where the catalog has it, else the folder, found from anywhere."""
    from d2k_agent.catalog import tasks_dir

    folder = task.folder.resolve()
    return task.slug if folder.parent == tasks_dir().resolve() else str(folder)


def _start(
    around: Surroundings,
    settings: Settings,
    task: Task,
    config: RunConfig,
    chosen: ChosenModel,
    watcher: Watcher,
    what: str,
    early: EarlyEnd | None = None,
) -> Finished:
    """Begin `what`, as a few words say, and drive it to its end, or to where `early` ends it."""
    from d2k_agent.catalog import staged_files

    require_gpu(around, config)
    files = staged_files(task, config.levels)
    path = _new_folder(around, settings, task, config)
    refuse_early(around, config, settings)
    watcher.begin(what)  # from here on it takes seconds
    loading = load_library(config)
    isolation = require_isolation(_probe(), config.unsafe_no_sandbox)
    _loaded(loading, watcher)
    from d2k_agent.records import RunFolder, RunRecord

    config = worded_as_recorded(config)
    price, quirks = price_of(around, settings, config), quirks_for(around, settings, config.model)
    on_a_cpu = surely_on_a_cpu(around, config)
    on_policy = None if early is None else early.note(priced=price is not None, on_a_cpu=on_a_cpu)
    notes = (note_on_price(config, price), note_on_quirks(quirks), on_policy)
    for note in (*notes_on(chosen, config, task.slug), *notes):
        if note is not None:
            watcher.note(note)
    model = open_model(around, config, chosen, price, quirks, watcher.note)
    record = RunRecord(
        run_id=path.name,
        config=config,
        task_slug=task.slug,
        task_digest=task.bundle().digest,
        workloads=tuple(workload.label for workload in task.workloads),
        baseline_sha256=baseline_sha256(task),
        staged={name: hashlib.sha256(data).hexdigest() for name, data in sorted(files.items())},
        price=price,
        quirks=quirks,
        ceilings=() if early is None else early.ceilings,
        isolation={"kind": isolation.kind, **isolation.details},
        versions=_versions(),
    )
    with _nothing_left_of_a_failure(path):
        run = RunFolder.create(path, record, files_to_keep(chosen))
    stopping = None if early is None else early.rule()
    return Assembly(around, settings, task, config, model, isolation, watcher, stopping).drive(run)


@contextmanager
def _nothing_left_of_a_failure(path: Path) -> Iterator[None]:
    """Take back a run's folder that could not be written whole: without run.json it cannot be resumed."""
    made = [folder for folder in (path, *path.parents) if not folder.exists()]
    try:
        yield
    except MachineError as error:
        if (path / "run.json").exists():  # another start was faster: what lies there is its run
            raise
        # Nothing was in the folder before. What the disk does not give back stays, and the first error is the one told.
        with suppress(OSError):
            for entry in path.iterdir():
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
        with suppress(OSError):
            for folder in (item for item in made if item.exists()):
                folder.rmdir()
        raise type(error)(f"{error}, then repeat the command; --run-dir or runs_folder names another place") from error


def _new_folder(around: Surroundings, settings: Settings, task: Task, config: RunConfig) -> Path:
    if settings.run_dir is not None:
        path = around.folder / settings.run_dir
        if path.exists() and not path.is_dir():
            raise UsageError(f"{path} is a file, and a run needs a folder; name a new one")
        if path.exists() and any(path.iterdir()):
            way = command("resume", nearby(path, around.folder))
            raise UsageError(f"{path} is not empty; name a new folder, or go on with a run by `{way}`")
        return path
    levels = "".join(config.levels) or "none"
    name = f"{datetime.now().astimezone():%Y%m%d-%H%M%S}-{task.slug}-{levels}-{secrets.token_hex(3)}"
    return around.runs_folder(settings) / name


def _versions() -> dict[str, str]:
    versions = {"d2k-agent": __version__, "python": platform.python_version()}
    for name in VERSIONS:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions
