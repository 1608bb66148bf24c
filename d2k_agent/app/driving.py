"""One run driven from where it stands: its files, its tools, its evaluator and the agent put together."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from d2k_agent.app.choosing_model import REPLAY, recording
from d2k_agent.app.evaluation import open_evaluation
from d2k_agent.app.host_tools import host_tools
from d2k_agent.app.incumbent import Incumbent
from d2k_agent.app.launching import gpus_of_tools
from d2k_agent.app.modelled import MODELLING_S
from d2k_agent.app.recorded import resume_command
from d2k_agent.app.surroundings import Surroundings
from d2k_agent.app.tool_sets import offered_tools
from d2k_agent.config import RunConfig, Settings, ToolLimits
from d2k_agent.contract import JobKind
from d2k_agent.errors import CallsRefused, D2KError, UsageError
from d2k_agent.reports.paths import command, nearby

if TYPE_CHECKING:
    from d2k_agent.agent import Stopping
    from d2k_agent.catalog import Task
    from d2k_agent.models import Model
    from d2k_agent.records import Event, Replayed, RunFolder, Trace
    from d2k_agent.sandbox import Isolation
    from d2k_agent.toolbox import HostTool, Toolbox, ToolSpec


class Watcher(Protocol):
    """Who watches a run."""

    def begin(self, what: str) -> None:
        """What begins, in a few words, once nothing that is known at once speaks against it."""

    def note(self, text: str) -> None:
        """A sentence about the run as a whole."""

    def step(self, text: str) -> None:
        """What is being done within the step in flight."""

    def past(self, events: Iterable[Event]) -> None:
        """Events from before a resume."""

    def event(self, event: Event) -> None:
        """One event, as it is recorded."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C in a run; the text says how to go on with it."""


@dataclass(frozen=True)
class Finished:
    """A run that ended by its own rules.

    `replayed` is the comparison with the recording, None unless its model replays one.
    """

    run_dir: Path
    trace: Trace
    replayed: Replayed | None


@dataclass(frozen=True)
class Assembly:
    """All that a run is driven with. `settings` says how the evaluator is started, `config` what the run is.

    `stopping` may end it early, where it is not None.
    """

    around: Surroundings
    settings: Settings
    task: Task
    config: RunConfig
    model: Model
    isolation: Isolation
    watcher: Watcher
    stopping: Stopping | None = None

    def drive(self, run: RunFolder) -> Finished:
        """Drive the run to its end. Every error, and Interrupted for Ctrl-C, says how to go on."""
        from d2k_agent.agent import run_agent
        from d2k_agent.isolation import hide_process
        from d2k_agent.records import read_trace, replayed

        hide_process()  # this process holds the keys: its memory and environment are nobody else's to read
        folder = nearby(run.path, self.around.folder)
        self.watcher.note(f"run folder {folder}")
        config = self.config
        wishes = dataclasses.replace(
            self.settings,
            target=config.target,
            device=config.device,
            gpu=config.gpu,
            evaluator=config.evaluator,
            unsafe_no_sandbox=config.unsafe_no_sandbox,
        )
        try:
            self._stage(run)
            with open_evaluation(
                self.around, wishes, self.task, self.watcher.step, modelling_s=MODELLING_S
            ) as evaluation:
                incumbent = Incumbent(run, config, run.read_record().workloads)
                host = host_tools(
                    evaluation, self.task, run.workspace, incumbent, config.wording, config.profile_tokens
                )
                confirm = partial(evaluation.judge, JobKind.CONFIRM)
                run_agent(run, config, self.model, self._toolbox(run, host), self.watcher.event, confirm, self.stopping)
        except KeyboardInterrupt:
            raise Interrupted(f"ended by Ctrl-C; go on with `{resume_command(config, folder)}`") from None
        except D2KError as error:
            raise type(error)(f"{str(error).rstrip('.')}. {_way_on(run, config, folder, error)}") from error
        trace = read_trace(run.path)
        if not config.model.startswith(REPLAY):
            return Finished(run.path, trace, None)
        return Finished(run.path, trace, replayed(recording(config.model), trace))

    def _stage(self, run: RunFolder) -> None:
        """Give the agent its files, unless it has begun to work with them."""
        from d2k_agent.catalog import staged_files
        from d2k_agent.records.files import write_atomically

        if run.events.exists() and run.events.stat().st_size:
            return
        for name, data in staged_files(self.task, self.config.levels).items():
            write_atomically(run.workspace / name, data)

    def _toolbox(self, run: RunFolder, host: Mapping[str, HostTool]) -> Toolbox:
        from d2k_agent.sandbox import Sandbox
        from d2k_agent.toolbox import Toolbox

        config = self.config
        specs = {name: _limited(spec, config.tool_limits) for name, spec in offered_tools(config).items()}
        sandbox = Sandbox(
            self.isolation,
            run.workspace,
            gpus=gpus_of_tools(self.around, config, self.watcher.step),
            unsafe_no_sandbox=config.unsafe_no_sandbox,
        )
        return Toolbox(specs, sandbox, run.workspace, host, _python_roots())


def _way_on(run: RunFolder, config: RunConfig, folder: Path, error: D2KError) -> str:
    """How to go on after `error`. Refused before any reply, a run may well be refused again: it keeps its model."""
    if isinstance(error, UsageError | CallsRefused) and not _replies(run):
        remove = command("runs", "rm", folder)
        return f"Then start a new run: this one got no reply and keeps its model and options; `{remove}` removes it"
    return f"Then go on with `{resume_command(config, folder)}`"


def _replies(run: RunFolder) -> bool:
    from d2k_agent.records import ModelReplied, read_events

    found = read_events(run.events)[0] if run.events.exists() else []
    return any(isinstance(event, ModelReplied) for event in found)


def _limited(spec: ToolSpec, limits: ToolLimits) -> ToolSpec:
    """The tool under the run's bounds, where those are tighter than its own."""
    limit_s = spec.limit_s if limits.limit_s is None else min(spec.limit_s, limits.limit_s)
    chars = spec.output_chars if limits.output_chars is None else min(spec.output_chars, limits.output_chars)
    return dataclasses.replace(spec, limit_s=limit_s, output_chars=chars)


def _python_roots() -> dict[str, str]:
    """The folders of this interpreter and its packages, which a recorded text calls <python>."""
    folders = {path for prefix in (sys.prefix, sys.base_prefix) for path in (prefix, os.path.realpath(prefix))}
    # A system interpreter lives among everything else: /usr/bin/cc is no part of it.
    return dict.fromkeys(sorted(folders - {"/usr", "/usr/local", "/"}), "<python>")
