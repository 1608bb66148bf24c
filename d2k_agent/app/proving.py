"""A task's own code put to the test by an evaluator: does its reference repeat, do its gates tell right from wrong?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from d2k_agent.app.evaluation import open_evaluation
from d2k_agent.app.surroundings import Surroundings
from d2k_agent.config import Settings
from d2k_agent.contract import JobKind
from d2k_agent.errors import UsageError

if TYPE_CHECKING:
    from d2k_agent.catalog import Finding, Task
    from d2k_agent.launchers import Progress


def proof_of(around: Surroundings, task: Task, progress: Progress) -> Finding:
    """The finding "proof", on a CPU at the smoke shapes. Raises MachineError where there is no evaluator."""
    from d2k_agent.catalog import Finding

    settings = around.settings(Settings(device="cpu"))
    with open_evaluation(around, settings, task, progress) as evaluation:
        try:
            verdict = evaluation.judge(JobKind.PROVE, "")
        except UsageError as problem:
            return Finding("proof", False, str(problem))
    return Finding("proof", verdict.status.acceptable, "" if verdict.status.acceptable else verdict.message)
