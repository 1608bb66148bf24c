"""Score a run's winner: here, or on another machine through a command prefix."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from d2k_agent.app.bundle import Subject
from d2k_agent.app.inventory import find_run
from d2k_agent.app.launching import open_launcher
from d2k_agent.app.recorded import require_same_task, task_of
from d2k_agent.app.surroundings import Surroundings
from d2k_agent.config import Settings
from d2k_agent.errors import UsageError
from d2k_agent.reports.paths import command
from d2k_agent.reports.score import Scored, score_data, score_text

if TYPE_CHECKING:
    from d2k_agent.contract import Verdict
    from d2k_agent.records import Choice, RunFolder, Trace

DEFAULT_TARGET = "b200"


@dataclass(frozen=True)
class Score:
    """A score: as data, in words, the verdict that it comes from, and the file that it was written to."""

    data: dict[str, Any]
    text: str
    verdict: Verdict
    path: Path


def score_run(
    around: Surroundings,
    name: str,
    command_line: Settings,
    progress: Callable[[str], None],
    task_name: str | None = None,
) -> Score:
    """Judge and measure the winner of the run `name` once more, and write the score into the run's folder.

    `task_name` is the task as the user named it, which one that does not ship has to be.

    Raises UsageError for a run without a winner, MachineError where nobody can judge.
    """
    from d2k_agent.catalog import suspected
    from d2k_agent.records.files import write_atomically, writing

    settings = around.settings(command_line)
    run = find_run(around, settings, name)
    subject = subject_of(run, settings, name, task_name)
    run.require_own_files()
    folder = run.path / "scores"
    with writing(folder):  # before minutes of measuring
        folder.mkdir(exist_ok=True)
    launcher = open_launcher(around, settings, progress)
    try:
        verdict = launcher.launch(subject.job(settings.device or "auto", bool(settings.unsafe_no_sandbox)))
    finally:
        launcher.close()
    verdict = suspected(verdict, subject.counts)
    now = datetime.now(UTC)
    data = score_data(subject.scored, verdict, now.isoformat(timespec="seconds"), evaluator=settings.evaluator or None)
    path = folder / f"{now:%Y%m%d-%H%M%S-%f}.json"
    write_atomically(path, json.dumps(data, allow_nan=False, indent=1).encode() + b"\n")
    return Score(data, score_text(subject.scored, verdict), verdict, path)


def subject_of(run: RunFolder, settings: Settings, name: str, task_name: str | None = None) -> Subject:
    """The winner of a run and all that a score needs beside it. Raises UsageError where there is no winner.

    Its target is the one that `settings` name, else the one that the run was started for, else a B200: not the GPU on
    which the run happened to be judged.
    """
    from d2k_agent.catalog import counts_of
    from d2k_agent.records import read_trace

    trace = read_trace(run.path)
    choice, ranked, why = _winner(trace, name)
    task = task_of(trace.run, task_name)
    require_same_task(trace.run, task)
    target = settings.target or trace.run.config.target or DEFAULT_TARGET
    judged_for = _judged_for(trace, choice)
    scored = Scored(trace.run.run_id, task.slug, choice.turn, choice.sha256, target, ranked, why, judged_for)
    return Subject(scored, task.bundle(), run.candidate(choice.sha256), task.baseline_text(), counts_of(task))


def _judged_for(trace: Trace, choice: Choice) -> str | None:
    key = (choice.turn, choice.call_id, choice.sha256)
    judged = (item for item in trace.submissions if (item.turn, item.call_id, item.sha256) == key)
    return next((item.verdict.environment.target for item in judged), None)


def _winner(trace: Trace, name: str) -> tuple[Choice, bool, str]:
    """The run's selection, else its provisional candidate; of a run that is not over, what it would choose now."""
    from d2k_agent.agent.selection import select
    from d2k_agent.records import SelectionMade

    finished = trace.finished
    if finished is not None:
        made = [event.why for event in trace.events if isinstance(event, SelectionMade)]
        selection, provisional, why = finished.selection, finished.provisional, made[-1] if made else ""
    else:
        so_far = select(trace.submissions, trace.run.workloads, trace.run.config.turns, trace.refused)
        selection, provisional = so_far.selection, so_far.provisional
        why = f"the run is not over; so far {so_far.why}"
    if selection is not None:
        return selection, True, why
    if provisional is not None:
        return provisional, False, why
    raise UsageError(
        f"{trace.run.run_id} has no candidate to score ({why}); `{command('trace', 'show', name)}` says what was "
        "handed in, and `d2k-agent evaluate` judges any file"
    )
