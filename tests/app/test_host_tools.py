"""submit, compile and profile as the agent has them: what is handed in twice, and what is judged twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from d2k_agent.agent.submitting import record_submission
from d2k_agent.app.evaluation import Evaluation
from d2k_agent.app.host_tools import ALREADY_JUDGED, host_tools
from d2k_agent.app.incumbent import Incumbent
from d2k_agent.catalog import find_task
from d2k_agent.contract import QUEUED, EvaluatorJob, Verdict, VerdictStatus
from d2k_agent.launchers import FakeLauncher
from d2k_agent.records import QUEUED_S, EventLog, RunFolder
from tests.agent.scene import HERE, new_run

MUON = find_task("muon")
SOURCE = "def run(G, steps=5): ...\n"


def nobody(tmp_path: Path) -> Incumbent:
    """The incumbent of a run that has none."""
    run = new_run(tmp_path / "run")
    run.events.touch()
    return of(run)


def of(run: RunFolder) -> Incumbent:
    record = run.read_record()
    return Incumbent(run, record.config, record.workloads)


def submit_twice(
    tmp_path: Path, status: VerdictStatus, second: str = SOURCE, *, resumed: bool = False
) -> tuple[FakeLauncher, list[str], int]:
    """The launcher, both answers, and how many of them are recorded as submissions; `resumed` in between or not."""

    def answer(job: EvaluatorJob) -> Verdict:
        return Verdict(status, job.candidate_sha256, f"seed {job.seed[:8]}", HERE)

    launcher = FakeLauncher(answer)
    evaluation = Evaluation(launcher, MUON, target=None, device="auto", unsafe=False)
    run = new_run(tmp_path / "run")
    run.events.touch()
    submit = host_tools(evaluation, MUON, tmp_path, of(run))["submit"]
    answers = []
    for turn, source in enumerate((SOURCE, second), 1):
        if resumed:
            submit = host_tools(evaluation, MUON, tmp_path, of(run))["submit"]
        (tmp_path / "solution.py").write_text(source)
        answers.append(submit({"path": "solution.py"}))
        with EventLog(run.events) as log:
            log.append(*record_submission(run, turn, f"c{turn}", dict(answers[-1].data)))
    assert all(item.data["outcome"] == status for item in answers)
    return launcher, [item.text for item in answers], sum("verdict" in item.data for item in answers)


@pytest.mark.parametrize("status", [VerdictStatus.UNTIMED, VerdictStatus.INCORRECT, VerdictStatus.COMPILE_ERROR])
@pytest.mark.parametrize("resumed", [False, True])
def test_the_same_text_is_not_judged_under_a_second_seed(tmp_path: Path, status: VerdictStatus, resumed: bool) -> None:
    launcher, (first, again), recorded = submit_twice(tmp_path, status, resumed=resumed)

    assert len(launcher.jobs) == recorded == 1
    assert again == ALREADY_JUDGED + first


@pytest.mark.parametrize("status", [VerdictStatus.NOISY, VerdictStatus.TIMED_OUT, VerdictStatus.OUT_OF_MEMORY])
def test_what_may_be_the_moments_doing_is_judged_again(tmp_path: Path, status: VerdictStatus) -> None:
    launcher, (first, again), recorded = submit_twice(tmp_path, status)

    assert len(launcher.jobs) == recorded == 2
    assert first != again


def test_another_text_is_another_submission(tmp_path: Path) -> None:
    launcher, _, recorded = submit_twice(tmp_path, VerdictStatus.UNTIMED, SOURCE + "\n")

    assert len(launcher.jobs) == recorded == 2


@pytest.mark.parametrize(("seconds", "queued_s"), [({QUEUED: 12.5, "timing": 3.0}, 12.5), ({"timing": 3.0}, None)])
def test_the_wait_for_the_gpu_is_told_apart_from_the_work(
    tmp_path: Path, seconds: dict[str, float], queued_s: float | None
) -> None:
    def answer(job: EvaluatorJob) -> Verdict:
        return Verdict(VerdictStatus.UNTIMED, job.candidate_sha256, "", HERE, seconds=seconds)

    evaluation = Evaluation(FakeLauncher(answer), MUON, target=None, device="auto", unsafe=False)
    tools = host_tools(evaluation, MUON, tmp_path, nobody(tmp_path))
    (tmp_path / "solution.py").write_text(SOURCE)
    for name in ("submit", "profile", "sanitize"):
        assert tools[name]({"path": "solution.py"}).data.get(QUEUED_S) == queued_s
