"""A modelled latency of a file: the job, on the CPU whatever GPU is there, and which targets have a model."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from d2k_agent.app.evaluation import judge_file
from d2k_agent.contract import JobKind, Verdict
from d2k_agent.contract.data_sheets import ceilings_of
from d2k_agent.contract.gpu import device_name
from d2k_agent.errors import UsageError

if TYPE_CHECKING:
    from d2k_agent.app.surroundings import Surroundings
    from d2k_agent.catalog import Task
    from d2k_agent.config import Settings
    from d2k_agent.launchers import Progress

TARGETS = ("h100", "h200", "b200")
"""GPUs of which enough is known for a model."""
MODELLING_S = 8.0
"""How many seconds of processor time a submission of a run may take to be modelled where it cannot be measured."""


@dataclass(frozen=True)
class ModelledFile:
    """The verdict whose `modelled` says what the model makes of a file; None in it where the candidate failed first.

    `floors_ms` are the floors of the best known algorithm on the target by workload, as far as they are known.
    """

    verdict: Verdict
    floors_ms: dict[str, float]


def model_file(
    around: Surroundings,
    command_line: Settings,
    task_name: str,
    solution: Path,
    labels: Sequence[str],
    progress: Progress,
) -> ModelledFile:
    """What the model makes of a file. Raises UsageError before anything is started."""
    from d2k_agent.catalog import find_task

    target = around.settings(command_line).target
    if target is not None and (target not in TARGETS or ceilings_of(device_name(target)) is None):
        raise UsageError(f"no ceilings are known of {target}, so nothing can be modelled for it; use {_named(TARGETS)}")
    task = find_task(task_name)
    if task.ranks:
        raise UsageError(
            f"{task.slug} is for several ranks, and only what one process does alone is modelled; "
            f"`d2k-agent inspect {task_name} FILE` says what its kernels need"
        )
    here_alone = dataclasses.replace(command_line, device="cpu")
    verdict = judge_file(around, here_alone, JobKind.MODEL, task_name, solution, labels, progress)
    return ModelledFile(verdict, _floors_ms(task, verdict))


def _floors_ms(task: Task, verdict: Verdict) -> dict[str, float]:
    from d2k_agent.catalog import counts_of
    from d2k_agent.reports.headroom import floors_of

    ceilings = None if verdict.modelled is None else ceilings_of(device_name(verdict.modelled.target))
    if ceilings is None:
        return {}
    floors = {label: floors_of(counts, ceilings).best for label, counts in counts_of(task).items()}
    return {label: floor.ms for label, floor in floors.items() if floor is not None}


def _named(targets: Sequence[str]) -> str:
    return " or ".join(f"--target {target}" for target in targets)
