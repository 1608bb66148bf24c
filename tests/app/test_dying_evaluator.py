"""An evaluator that a candidate kills: the baseline tells whether candidate or machine is at fault."""

from __future__ import annotations

import pytest

from d2k_agent.app.evaluation import Evaluation
from d2k_agent.catalog import find_task
from d2k_agent.contract import Environment, EvaluatorJob, JobKind, Verdict, VerdictStatus
from d2k_agent.errors import EvaluatorError
from d2k_agent.launchers import FakeLauncher

ENVIRONMENT = Environment("m", "cpu", "c", "b200", "none", "3", "2", "3", "d", "t")
DEADLY = "def run(G, steps=5): ...\n"


def evaluation(baseline: VerdictStatus | None) -> tuple[Evaluation, FakeLauncher]:
    """An evaluator that dies of DEADLY, and of the baseline too where `baseline` is None."""

    def answer(job: EvaluatorJob) -> Verdict:
        if job.candidate == DEADLY or baseline is None:
            raise EvaluatorError("the evaluator ended with status -11: it left no message")
        return Verdict(baseline, job.candidate_sha256, "", ENVIRONMENT)

    launcher = FakeLauncher(answer)
    return Evaluation(launcher, find_task("muon"), target=None, device="auto", unsafe=False), launcher


def test_a_baseline_that_passes_puts_the_blame_on_the_candidate() -> None:
    judged, launcher = evaluation(VerdictStatus.UNTIMED)
    verdict = judged.judge(JobKind.EVALUATE, DEADLY)
    assert verdict.status is VerdictStatus.RUNTIME_ERROR
    assert "status -11" in verdict.message
    assert verdict.candidate_sha256 == launcher.jobs[0].candidate_sha256
    assert launcher.jobs[1].seed != launcher.jobs[0].seed


@pytest.mark.parametrize("baseline", [None, VerdictStatus.INCORRECT])
def test_a_baseline_that_fails_too_is_a_broken_machine(baseline: VerdictStatus | None) -> None:
    judged, _ = evaluation(baseline)
    with pytest.raises(EvaluatorError, match="status -11"):
        judged.judge(JobKind.EVALUATE, DEADLY)
