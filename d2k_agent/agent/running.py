"""Driving one run from where it stands to its end: a new one and an interrupted one alike.

Covers: the lock, the checkpoints, what is recorded when the process has to give up. Does not cover: the steps (nodes).
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver
from langsmith import tracing_context

from d2k_agent.agent.budgets import Budgets
from d2k_agent.agent.compaction import Compactor
from d2k_agent.agent.graph import build_graph
from d2k_agent.agent.journal import Journal, Progress
from d2k_agent.agent.parts import Confirm, Parts, Stopping, Tools
from d2k_agent.agent.state import beginning, recursion_limit, rests_on
from d2k_agent.agent.window import Window
from d2k_agent.config import RunConfig
from d2k_agent.errors import D2KError, MachineError
from d2k_agent.models import Model
from d2k_agent.records import Choice, EventLog, History, RunFinished, RunFolder, RunInterrupted, RunResumed, StopReason

_THREAD = "run"


@dataclass(frozen=True)
class Outcome:
    """How a run ended. At most one of `selection` and `provisional` is set; the latter has no rank."""

    run_dir: Path
    stop_reason: StopReason
    selection: Choice | None
    provisional: Choice | None


def run_agent(
    run: RunFolder,
    config: RunConfig,
    model: Model,
    toolbox: Tools,
    progress: Progress,
    confirm: Confirm | None = None,
    stopping: Stopping | None = None,
) -> Outcome:
    """Drive the run in `run` to its end, from its beginning or from where another process left it.

    A run that is over is left as it is, and its outcome returned. Raises UsageError when another process drives it,
    and MachineError, ModelError or KeyboardInterrupt when this one has to give up; the run can then be resumed.
    """
    record = run.read_record()
    with run.drive(), EventLog(run.events) as log:
        journal = Journal(log, progress, None if stopping is None else History(record.workloads))
        parts = Parts(
            run,
            journal,
            model,
            toolbox,
            Budgets.of(config),
            record.workloads,
            confirm,
            Window(config.model, None if record.quirks is None else record.quirks.context_tokens),
            brief=config.wording == "brief",
            compactor=Compactor(record.price, config.turns) if config.protocol == "efficient" else None,
            stopping=stopping,
        )
        with _giving_up_recorded(parts, progress):
            finished = journal.finished or _drive(parts)
    return Outcome(run.path, finished.stop_reason, finished.selection, finished.provisional)


@contextmanager
def _giving_up_recorded(parts: Parts, progress: Progress) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        _record_giving_up(parts, "Ctrl-C", progress)
        raise
    except D2KError as error:
        # The disk may be what is broken: then the record of it is lost, and the error itself still tells it.
        with suppress(MachineError):
            _record_giving_up(parts, str(error), progress)
        raise


def _drive(parts: Parts) -> RunFinished:
    settings: RunnableConfig = {
        "configurable": {"thread_id": _THREAD},
        "recursion_limit": recursion_limit(parts.budgets.turns),
    }
    with tracing_context(enabled=False), _checkpoints(parts.run.checkpoint) as saver:
        machine = build_graph().compile(checkpointer=saver)
        saved = machine.get_state(settings)
        usable = saved.created_at is not None and rests_on(saved.values, parts.journal.size)
        if not usable:
            saver.delete_thread(_THREAD)
        if parts.journal.size:
            parts.journal.append(RunResumed(pid=os.getpid(), checkpoint=usable))
        machine.invoke(None if usable else beginning(), settings, context=parts, durability="sync")
    if parts.journal.finished is None:
        raise MachineError(
            f"{parts.run.checkpoint} says that the run is over, events.jsonl does not; remove checkpoint.sqlite, then "
            "resume the run: it goes on from what the log holds"
        )
    return parts.journal.finished


@contextmanager
def _checkpoints(path: Path) -> Iterator[SqliteSaver]:
    try:
        with closing(sqlite3.connect(path, check_same_thread=False)) as connection:
            # The log is the truth and is synced; a checkpoint only says where in it the machine stands. One that a
            # power cut loses, or that is ahead of the log, is done without: every step finds itself in the log again.
            connection.execute("PRAGMA synchronous=NORMAL")
            # A run's folder may be a stranger's, and by default whatever a checkpoint names is imported and called.
            yield SqliteSaver(connection, serde=JsonPlusSerializer(allowed_msgpack_modules=None))
    except sqlite3.Error as error:
        raise MachineError(
            f"{path} cannot be used ({error}); free some space or correct its permissions, then resume the run (a "
            "damaged file may be removed: the run then goes on from its event log)"
        ) from error


def _record_giving_up(parts: Parts, reason: str, progress: Progress) -> None:
    """The log is opened anew: the interruption may have hit in the middle of an append."""
    with EventLog(parts.run.events) as log:
        for event in log.append(RunInterrupted(node=parts.node, reason=reason)):
            progress(event)
