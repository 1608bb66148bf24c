"""A launcher without an evaluator: for dry runs of the loop, and for tests of everything above it."""

from __future__ import annotations

from collections.abc import Callable

from d2k_agent.contract import EvaluatorJob, Verdict


class FakeLauncher:
    """Answers each job by a function of the caller's; remembers the jobs it was given."""

    def __init__(self, answer: Callable[[EvaluatorJob], Verdict]) -> None:
        self._answer = answer
        self.jobs: list[EvaluatorJob] = []

    def launch(self, job: EvaluatorJob) -> Verdict:
        """The caller's verdict on the job."""
        self.jobs.append(job)
        return self._answer(job)

    def close(self) -> None:
        """Nothing to end."""
