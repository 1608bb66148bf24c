"""submit, compile and profile as the agent has them: what is handed in twice, and what is judged twice."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from d2k_agent.agent import submission_data
from d2k_agent.agent.submitting import record_submission
from d2k_agent.app.evaluation import NO_SOURCE, Evaluation
from d2k_agent.app.host_tools import ALREADY_JUDGED, host_tools
from d2k_agent.app.incumbent import Incumbent
from d2k_agent.catalog import find_task
from d2k_agent.contract import QUEUED, Environment, EvaluatorJob, Verdict, VerdictStatus, source_sha256
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


CPU = replace(HERE, isolation="landlock")
GPU = replace(CPU, device="cuda", device_name="NVIDIA H200", details={"uuid": "GPU-1"})


@pytest.mark.parametrize(
    ("now", "baseline", "again"),
    [
        (CPU, "b = 1\n", False),
        (replace(CPU, evaluator_digest="f" * 64), "b = 1\n", True),
        (replace(CPU, task_digest="f" * 64), "b = 1\n", True),
        (replace(CPU, triton="3.6"), "b = 1\n", True),
        (replace(CPU, target="h200"), "b = 1\n", True),
        (GPU, "b = 1\n", True),
        (CPU, "b = 2\n", True),
    ],
)
def test_a_resumed_run_judges_again_what_another_evaluator_task_machine_or_baseline_judged(
    tmp_path: Path, now: Environment, baseline: str, again: bool
) -> None:
    status = VerdictStatus.INCORRECT
    before = Verdict(status, source_sha256(SOURCE), "then", CPU, baseline_sha256=source_sha256("b = 1\n"))
    run = new_run(tmp_path / "run")
    with EventLog(run.events) as log:
        log.append(*record_submission(run, 1, "c1", submission_data(SOURCE, before)))

    def answer(job: EvaluatorJob) -> Verdict:
        # Of a text that never runs, nobody knows what would confine it.
        return Verdict(status, job.candidate_sha256, "now", replace(now, isolation=None))

    launcher = FakeLauncher(answer)
    evaluation = Evaluation(launcher, MUON, target=None, device="auto", unsafe=False, baseline=baseline)
    (tmp_path / "solution.py").write_text(SOURCE)

    told = host_tools(evaluation, MUON, tmp_path, of(run))["submit"]({"path": "solution.py"})

    assert [job.candidate for job in launcher.jobs] == [NO_SOURCE, *[SOURCE] * again]
    assert told.text.startswith(ALREADY_JUDGED) is not again


def test_what_was_untimed_is_measured_where_the_run_goes_on_with_a_gpu(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    untimed = Verdict(VerdictStatus.UNTIMED, source_sha256(SOURCE), "", CPU)
    with EventLog(run.events) as log:
        log.append(*record_submission(run, 1, "c1", submission_data(SOURCE, untimed)))
    launcher = FakeLauncher(lambda job: Verdict(VerdictStatus.NOISY, job.candidate_sha256, "", GPU))
    evaluation = Evaluation(launcher, MUON, target=None, device="auto", unsafe=False)
    (tmp_path / "solution.py").write_text(SOURCE)

    told = host_tools(evaluation, MUON, tmp_path, of(run))["submit"]({"path": "solution.py"})

    assert launcher.jobs[-1].candidate == SOURCE and told.data["outcome"] == VerdictStatus.NOISY


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
