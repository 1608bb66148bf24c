"""The launcher's contract."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from d2k_agent.contract import EvaluatorJob, Verdict

Progress = Callable[[str], None]
"""Told in a few words what the evaluator is doing now."""


class Launcher(Protocol):
    """Brings jobs to an evaluator."""

    def launch(self, job: EvaluatorJob) -> Verdict:
        """The verdict on a job. Raises UsageError for a broken task, MachineError for a machine that cannot judge."""

    def close(self) -> None:
        """End the evaluator and everything it started."""
