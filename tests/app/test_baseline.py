"""What a job says of the baseline and the incumbent, and how a run's incumbent is found."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

import pytest

from d2k_agent.app.evaluation import Evaluation
from d2k_agent.app.host_tools import host_tools
from d2k_agent.app.incumbent import Incumbent
from d2k_agent.app.solving import resume
from d2k_agent.app.surroundings import Surroundings
from d2k_agent.catalog import Task, find_task
from d2k_agent.config import RunConfig, Settings
from d2k_agent.contract import EvaluatorJob, JobKind, Profile, Verdict, VerdictStatus
from d2k_agent.errors import UsageError
from d2k_agent.launchers import FakeLauncher
from d2k_agent.records import Event, EventLog, Measured, RunFolder, RunRecord, Submitted, VerdictReached, cut
from tests.agent.scene import HERE, WORKLOADS, drive, hand_in, new_run, passed, scripted, toolbox

MUON = find_task("muon")
SOURCE = "def run(G, steps=5): ...\n"


def answer(job: EvaluatorJob) -> Verdict:
    return Verdict(VerdictStatus.UNTIMED, job.candidate_sha256, "", HERE)


def evaluation(launcher: FakeLauncher, baseline: str | None = None, task: Task = MUON) -> Evaluation:
    return Evaluation(launcher, task, target=None, device="auto", unsafe=False, baseline=baseline)


@pytest.mark.parametrize("kind", list(JobKind))
def test_jobs_that_judge_carry_the_tasks_baseline_and_no_other_job_does(kind: JobKind) -> None:
    evaluation(launcher := FakeLauncher(answer)).judge(kind, SOURCE)

    (job,) = launcher.jobs
    assert job.baseline == (MUON.baseline_text() if kind in (JobKind.EVALUATE, JobKind.CONFIRM) else None)
    assert job.beat is None


def test_a_baseline_of_ones_own_takes_the_place_of_the_tasks() -> None:
    evaluation(launcher := FakeLauncher(answer), "# mine\n").judge(JobKind.EVALUATE, SOURCE)

    assert launcher.jobs[0].baseline == "# mine\n"


def test_every_job_has_a_seed_of_its_own() -> None:
    judged = evaluation(launcher := FakeLauncher(answer))
    for kind in (JobKind.EVALUATE, JobKind.CONFIRM, JobKind.CONFIRM):
        judged.judge(kind, SOURCE)

    assert len({job.seed for job in launcher.jobs}) == 3


def test_submit_asks_what_is_to_be_beaten_and_the_other_tools_do_not(tmp_path: Path) -> None:
    run = new_run(tmp_path / "r")
    tools = host_tools(evaluation(launcher := FakeLauncher(answer)), MUON, tmp_path, follow(run))

    with EventLog(run.events) as log:
        for number, name in enumerate(("compile", "submit", "profile", "submit", "sanitize")):
            (tmp_path / "solution.py").write_text(f"{SOURCE}# {number}\n")
            tools[name]({"path": "solution.py"})
            if number == 2:
                submitted(log, 1, passed(sha256("b"), 2.5))

    assert [(job.kind.value, job.beat) for job in launcher.jobs] == [
        ("compile", None),
        ("evaluate", None),
        ("profile", None),
        ("evaluate", 2.5),
        ("sanitize", None),
    ]


def test_a_profile_is_called_one(tmp_path: Path) -> None:
    (tmp_path / "solution.py").write_text(SOURCE)

    def profiled(job: EvaluatorJob) -> Verdict:
        profile = Profile("small", "ncu", (), 12.5) if job.kind is JobKind.PROFILE else None
        return Verdict(VerdictStatus.UNTIMED, job.candidate_sha256, "", HERE, profile=profile)

    run = new_run(tmp_path / "r")
    run.events.touch()
    tools = host_tools(evaluation(FakeLauncher(profiled)), MUON, tmp_path, follow(run))

    outcomes = {name: tools[name]({"path": "solution.py"}).data["outcome"] for name in ("compile", "profile", "submit")}
    assert outcomes == {"compile": "untimed", "profile": "profiled", "submit": "untimed"}


def submitted(log: EventLog, turn: int, verdict: Verdict) -> None:
    key = {"turn": turn, "call_id": f"c{turn}", "sha256": verdict.candidate_sha256}
    parts = cut(verdict)
    log.append(Submitted(**key), VerdictReached(**key, verdict=parts.verdict))
    if parts.times is not None:
        log.append(Measured(**key, times=parts.times))


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def follow(run: RunFolder) -> Incumbent:
    record = run.read_record()
    return Incumbent(run, record.config, record.workloads)


def test_the_incumbent_is_the_best_eligible_submission_so_far(tmp_path: Path) -> None:
    run = new_run(tmp_path / "r", turns=10)
    with EventLog(run.events) as log:
        incumbent = follow(run)
        told = [incumbent.speedup()]
        for turn, verdict in enumerate(
            (
                Verdict(VerdictStatus.INCORRECT, sha256("a"), "wrong", HERE),
                passed(sha256("b"), 9.0, WORKLOADS[:1]),
                passed(sha256("c"), 2.0),
                passed(sha256("d"), 1.5),
                passed(sha256("e"), 3.0),
            ),
            start=1,
        ):
            submitted(log, turn, verdict)
            told.append(incumbent.speedup())

    assert told == [None, None, None, 2.0, 2.0, 3.0], "one that was measured on a part only is nobody's rival"
    assert follow(run).speedup() == 3.0, "a resumed run knows it too"


def test_a_run_tells_each_submission_what_it_has_to_beat(tmp_path: Path) -> None:
    run = new_run(tmp_path / "r")

    def judge(job: EvaluatorJob) -> Verdict:
        return passed(job.candidate_sha256, float(job.candidate.split()[2]))

    judged = evaluation(launcher := FakeLauncher(judge))
    host = host_tools(judged, MUON, run.workspace, follow(run))
    script = scripted([hand_in(f"# speedup {speed}\n") for speed in (2.0, 1.5, 3.0, 2.5)])
    submit = host["submit"]
    drive(
        run,
        script,
        toolbox(run, submit=lambda arguments: submit({"path": "solution.py"})),
        confirm=lambda source: judged.judge(JobKind.CONFIRM, source),
    )

    assert [(job.kind.value, job.beat) for job in launcher.jobs] == [
        ("evaluate", None),
        ("evaluate", 2.0),
        ("evaluate", 2.0),
        ("evaluate", 3.0),
        ("confirm", None),
    ]
    assert launcher.jobs[-1].candidate == "# speedup 3.0\n"


class Nobody:
    """Watches a run that does not begin."""

    def note(self, text: str) -> None:
        raise AssertionError(text)

    step = note

    def past(self, events: Iterable[Event]) -> None:
        raise AssertionError("the run goes on")

    def event(self, event: Event) -> None:
        raise AssertionError("the run goes on")


def test_a_run_is_not_resumed_over_another_baseline(tmp_path: Path) -> None:
    """Its speedups would be over two baselines."""
    record = RunRecord(
        run_id="r",
        config=RunConfig(task="muon", model="scripted/none"),
        task_slug="muon",
        task_digest=MUON.bundle().digest,
        workloads=("a",),
        baseline_sha256="0" * 64,
    )
    RunFolder.create(tmp_path / "r", record)
    around = Surroundings(tmp_path, {}, tmp_path, "python3")

    with pytest.raises(UsageError, match="the baseline of muon has changed since r began"):
        resume(around, "r", Settings(), Nobody())
