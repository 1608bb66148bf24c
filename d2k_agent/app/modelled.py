"""A modelled latency of a file: the job, on the CPU whatever GPU is there, and which targets have a model."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from d2k_agent.app.evaluation import judge_file
from d2k_agent.contract import JobKind, Verdict
from d2k_agent.contract.data_sheets import ceilings_of
from d2k_agent.contract.gpu import device_name
from d2k_agent.errors import UsageError

if TYPE_CHECKING:
    from d2k_agent.app.surroundings import Surroundings
    from d2k_agent.config import Settings
    from d2k_agent.launchers import Progress

TARGETS = ("h100", "h200", "b200")
"""GPUs of which enough is known for a model."""
MODELLING_S = 8.0
"""How many seconds of processor time a submission of a run may take to be modelled where it cannot be measured."""


def model_file(
    around: Surroundings,
    command_line: Settings,
    task_name: str,
    solution: Path,
    labels: Sequence[str],
    progress: Progress,
) -> Verdict:
    """The verdict whose `modelled` says what the model makes of a file; None in it where the candidate failed first.

    Raises UsageError before anything is started.
    """
    target = around.settings(command_line).target
    if target is not None and (target not in TARGETS or ceilings_of(device_name(target)) is None):
        raise UsageError(f"no ceilings are known of {target}, so nothing can be modelled for it; use {_named(TARGETS)}")
    here_alone = dataclasses.replace(command_line, device="cpu")
    return judge_file(around, here_alone, JobKind.MODEL, task_name, solution, labels, progress)


def _named(targets: Sequence[str]) -> str:
    return " or ".join(f"--target {target}" for target in targets)
