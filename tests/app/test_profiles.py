"""Profiles in a run: kept, looked into as asked, told beside the best submission's; and from files and other runs."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from d2k_agent.app.evaluation import Evaluation
from d2k_agent.app.host_tools import host_tools
from d2k_agent.app.incumbent import Incumbent
from d2k_agent.app.profiles import against, earlier_profiles, profile_data, profiles_in
from d2k_agent.app.surroundings import Surroundings
from d2k_agent.app.tool_sets import offered_tools
from d2k_agent.catalog import find_task
from d2k_agent.config import RunConfig, Settings
from d2k_agent.contract import (
    Bottleneck,
    Diagnosis,
    EvaluatorJob,
    JobKind,
    KernelProfile,
    Profile,
    SanitizerCheck,
    SanitizerReport,
    Verdict,
    VerdictStatus,
    source_sha256,
)
from d2k_agent.errors import UsageError
from d2k_agent.launchers import FakeLauncher
from d2k_agent.records import EventLog, RunFolder, Times, ToolFinished, cut
from d2k_agent.reports.verdict_data import verdict_data
from tests.agent.scene import HERE, WORKLOADS, new_run, passed
from tests.app.test_baseline import submitted

MUON = find_task("muon")
BEST, NEXT = "# the best one\n", "# the next one\n"


def profile(us: float) -> Profile:
    diagnosis = Diagnosis(Bottleneck.DRAM, ())
    kernel = KernelProfile("k", 1, us, 1.0, (1,), (128,), dram_percent=80.0, diagnosis=diagnosis)
    return Profile(WORKLOADS[0], "ncu", (kernel,), us, diagnosis=diagnosis)


def profiled(source: str, us: float) -> Verdict:
    return Verdict(VerdictStatus.UNTIMED, source_sha256(source), "", HERE, profile=profile(us))


def finished(verdict: Verdict, turn: int) -> ToolFinished:
    data = {"outcome": "profiled", **profile_data(verdict)}
    return ToolFinished(turn=turn, index=0, call_id=f"p{turn}", name="profile", status="ok", text="", data=data)


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    """A run whose best submission, of turn 2, takes 2 ms a call on every workload and was profiled before."""
    run = new_run(tmp_path / "r")
    with EventLog(run.events) as log:
        log.append(finished(profiled(BEST, 100.0), 1))
        submitted(log, 2, passed(source_sha256(BEST), 2.0))
    return run


def asked(run: RunFolder, source: str, arguments: dict[str, object]) -> tuple[str, EvaluatorJob]:
    launcher = FakeLauncher(lambda job: profiled(job.candidate, 80.0))
    evaluation = Evaluation(launcher, MUON, target=None, device="auto", unsafe=False)
    record = run.read_record()
    incumbent = Incumbent(run, record.config, record.workloads)
    (run.workspace / "solution.py").write_text(source)
    tools = host_tools(evaluation, MUON, run.workspace, incumbent, "brief", 600)
    answer = tools["profile"]({"path": "solution.py", **arguments})
    assert answer.data["profile"]["duration_us"] == 80.0
    return answer.text, launcher.jobs[0]


def test_a_profile_is_told_against_that_of_the_best_submission(run: RunFolder) -> None:
    text, job = asked(run, NEXT, {"sections": ["memory", "source", "memory"]})
    assert "Against the best submission so far (turn 2): kernel time 100.0 -> 80.0 us (-20.0 %)" in text
    assert job.profile.sections == ("memory", "source")
    assert job.profile.call_ms is None, "nobody measured this candidate"


def test_a_best_submission_that_was_never_profiled_is_said_to_be_so(tmp_path: Path) -> None:
    unprofiled = new_run(tmp_path / "r")
    with EventLog(unprofiled.events) as log:
        submitted(log, 2, passed(source_sha256(BEST), 2.0))
    text, _ = asked(unprofiled, NEXT, {})
    assert f"No comparison: the best submission so far (turn 2) was not profiled on {WORKLOADS[0]}." in text
    empty = new_run(tmp_path / "empty")
    EventLog(empty.events).close()
    first, _ = asked(empty, NEXT, {})
    assert "No comparison" not in first


def test_the_best_submission_is_not_compared_with_itself(run: RunFolder) -> None:
    text, _ = asked(run, BEST, {})
    assert "Against" not in text


def test_a_latency_that_was_measured_goes_with_the_wish(run: RunFolder) -> None:
    record = run.read_record()
    incumbent = Incumbent(run, record.config, record.workloads)
    assert incumbent.measured(source_sha256(BEST), WORKLOADS[0]) is not None
    assert incumbent.measured(source_sha256(NEXT), WORKLOADS[0]) is None
    assert incumbent.measured(source_sha256(BEST), "no such workload") is None


def test_a_kept_profile_of_another_version_is_nobodys(run: RunFolder) -> None:
    event = finished(profiled(BEST, 1.0), 1)
    odd = event.model_copy(update={"data": {"profile": {"workload": 7}}})
    older = event.model_copy(update={"data": {"outcome": "profiled"}})
    assert profiles_in([odd, older]) == {}
    assert list(profiles_in([event])) == [(source_sha256(BEST), WORKLOADS[0])]


def test_a_file_that_profile_printed_can_be_compared_with(tmp_path: Path) -> None:
    (tmp_path / "before.json").write_text(json.dumps(verdict_data(profiled(BEST, 100.0))))
    (kept,) = earlier_profiles(around(tmp_path), Settings(), "before.json")
    assert against(profile(80.0), (kept,), "before.json").startswith(
        "Against before.json: kernel time 100.0 -> 80.0 us"
    )


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "before.json is no profile"),
        ("[]", "before.json is no profile .an object was expected"),
        (json.dumps(verdict_data(Verdict(VerdictStatus.UNTIMED, "0" * 64, "", HERE))), "a verdict without a profile"),
    ],
)
def test_a_file_that_is_none_is_refused_in_one_sentence(tmp_path: Path, content: str, said: str) -> None:
    (tmp_path / "before.json").write_text(content)
    with pytest.raises(UsageError, match=f"{said}.*profile --json"):
        earlier_profiles(around(tmp_path), Settings(), "before.json")


def test_a_run_without_a_profile_of_its_winner_is_refused(run: RunFolder) -> None:
    with pytest.raises(UsageError, match="holds no profile of its selected candidate"):
        earlier_profiles(around(run.path.parent), Settings(), str(run.path))


def test_a_candidate_of_any_run_is_found_by_its_digest(run: RunFolder) -> None:
    folder = run.path.parent
    where, settings = around(folder), Settings(runs_folder=str(folder))
    digest = source_sha256(BEST)
    assert [item.duration_us for item in earlier_profiles(where, settings, digest[:12])] == [100.0]
    with pytest.raises(UsageError, match=r"no run in .* profiled a candidate whose sha256 begins with 0123abcd"):
        earlier_profiles(where, settings, "0123abcd")


def test_a_profile_is_recorded_with_the_times_and_read_again() -> None:
    parts = cut(dataclasses.replace(passed(source_sha256(BEST), 2.0), profile=profile(7.0)))
    assert parts.times is not None
    again = Times.model_validate_json(parts.times.model_dump_json())
    assert again.profile == profile(7.0)


def around(folder: Path) -> Surroundings:
    return Surroundings(folder, {}, folder / "config", "python3")


def test_sanitize_hands_its_check_on_and_tells_what_was_found(run: RunFolder) -> None:
    report = SanitizerReport(SanitizerCheck.RACECHECK, "compute-sanitizer", ("smoke_a",), 0)
    launcher = FakeLauncher(
        lambda job: Verdict(VerdictStatus.UNTIMED, job.candidate_sha256, "", HERE, sanitizer=report)
    )
    evaluation = Evaluation(launcher, MUON, target=None, device="auto", unsafe=False)
    record = run.read_record()
    (run.workspace / "solution.py").write_text(NEXT)
    tools = host_tools(evaluation, MUON, run.workspace, Incumbent(run, record.config, record.workloads))
    answer = tools["sanitize"]({"path": "solution.py", "check": "racecheck"})
    assert launcher.jobs[0].kind is JobKind.SANITIZE and launcher.jobs[0].check is SanitizerCheck.RACECHECK
    assert answer.data == {"outcome": "sanitized"} and answer.text.startswith("racecheck: nothing found")


def test_a_run_offers_seven_tools_and_those_that_it_asks_for() -> None:
    seven = {"bash", "compile", "edit", "profile", "read", "submit", "write"}
    assert set(offered_tools(RunConfig("muon", "m"))) == seven
    assert set(offered_tools(RunConfig("muon", "m", protocol="efficient", more_tools=("sanitize",)))) == {
        *seven,
        "sanitize",
    }
    assert set(offered_tools(RunConfig("muon", "m", protocol="paper"))) == {"bash", "read", "submit", "write"}


def test_a_tool_that_nobody_can_add_is_refused() -> None:
    with pytest.raises(UsageError, match="there is no such tool to add; there is sanitize"):
        offered_tools(RunConfig("muon", "m", more_tools=("profile",)))
    with pytest.raises(UsageError, match="leave --tool out"):
        RunConfig("muon", "m", protocol="paper", more_tools=("sanitize",))
    with pytest.raises(UsageError, match="profile-tokens must be at least 100"):
        RunConfig("muon", "m", profile_tokens=10)
