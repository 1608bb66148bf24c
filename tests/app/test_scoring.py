"""Which candidate of a run is scored, and a score through a command prefix."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from d2k_agent.app.bundle import Subject
from d2k_agent.app.scoring import score_run, subject_of
from d2k_agent.app.surroundings import Surroundings
from d2k_agent.config import Settings
from d2k_agent.errors import UsageError
from d2k_agent.records import EventLog, RunFolder, SelectionConfirmed, read_trace
from tests.app.ended_run import ended_run
from tests.evaluator.scaling import HONEST
from tests.launchers.prefixes import PATH, like_ssh


def around(folder: Path) -> Surroundings:
    return Surroundings(folder, {"PATH": PATH}, folder / "config", sys.executable)


def subject(run: RunFolder, target: str | None = None) -> Subject:
    """The winner of a run that was made by ended_run(), whose task the user named."""
    return subject_of(run, Settings(target=target), "run", str(run.path.parent / "scaling"))


@pytest.mark.parametrize("ranked", [True, False])
def test_the_selection_is_scored_else_the_provisional_candidate_and_it_is_said_which(
    ranked: bool, tmp_path: Path
) -> None:
    winner = subject(ended_run(tmp_path, ranked=ranked))
    assert (winner.scored.ranked, winner.scored.turn, winner.scored.why) == (ranked, 3, "because")
    assert ("provisional" in winner.scored.title) is not ranked
    assert winner.candidate == HONEST + "# the winner\n" and winner.baseline == HONEST
    assert winner.scored.target == winner.scored.judged_for == "b200"
    assert subject(ended_run(tmp_path / "2"), target="h200").scored.target == "h200"


def test_every_job_has_a_seed_of_its_own_and_compiles_for_what_is_there(tmp_path: Path) -> None:
    winner = subject(ended_run(tmp_path))
    first, second = winner.job(), winner.job()
    assert first.seed != second.seed
    assert (first.kind, first.target, first.beat, first.baseline) == ("confirm", None, None, HONEST)


def test_of_a_run_that_is_not_over_the_best_so_far_is_scored(tmp_path: Path) -> None:
    winner = subject(ended_run(tmp_path, over=False))
    assert not winner.scored.ranked and winner.scored.why.startswith("the run is not over; so far ")


def test_a_candidate_that_was_refused_when_judged_again_is_not_scored(tmp_path: Path) -> None:
    run = ended_run(tmp_path, over=False)
    refused = read_trace(run.path).submissions[0].sha256
    with EventLog(run.events) as log:
        log.append(SelectionConfirmed(sha256=refused, confirmed=False, note="refused when judged again: incorrect"))
    with pytest.raises(UsageError, match=r"no candidate to score \(.*1 submission none was accepted \(1 refused"):
        subject(run)


def test_a_run_without_a_winner_and_a_changed_task_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no candidate to score \(because\); `d2k-agent trace show run`"):
        subject(ended_run(tmp_path / "1", winner=False))
    run = ended_run(tmp_path / "2")
    (tmp_path / "2" / "scaling" / "hidden" / "rules.toml").write_text("# stricter\n")
    with pytest.raises(UsageError, match="is not the task that run began with, or has changed since; name that one"):
        subject(run)


def test_a_winner_is_not_scored_over_another_baseline(tmp_path: Path) -> None:
    run = ended_run(tmp_path)
    (tmp_path / "scaling" / "guidance" / "baseline.py").write_text(f"{HONEST}# slower\n")
    with pytest.raises(UsageError, match="the baseline of scaling has changed since run began"):
        subject(run)


def test_a_score_through_a_prefix_is_kept_in_the_run_and_says_what_that_machine_is_not(tmp_path: Path) -> None:
    run = ended_run(tmp_path)
    prefix = " ".join(like_ssh(tmp_path, "echo Welcome"))
    told: list[str] = []
    score = score_run(
        around(tmp_path), "run", Settings(evaluator=prefix, device="cpu"), told.append, str(tmp_path / "scaling")
    )
    (path,) = (run.path / "scores").iterdir()
    assert path == score.path and json.loads(path.read_text()) == json.loads(json.dumps(score.data))
    assert score.data["evaluator"] == prefix
    assert (score.data["status"], score.data["on_target"], score.data["measured_on"]) == ("untimed", False, None)
    assert score.data["scored"]["sha256"] == score.data["verdict"]["candidate_sha256"]
    assert "nothing was measured on " in score.text and "says nothing about b200" in score.text
    assert told[0] == f"waiting for {prefix}"


def test_where_nothing_can_be_measured_the_winner_is_compiled_for_the_target_that_is_named(tmp_path: Path) -> None:
    ended_run(tmp_path)
    score = score_run(
        around(tmp_path), "run", Settings(target="h200", device="cpu"), lambda _: None, str(tmp_path / "scaling")
    )
    assert score.verdict.environment.target == "h200"
    title, _, told = score.text.partition("\n")
    assert title.endswith("for h200 (the run itself was judged for b200)")
    assert "compiles for h200; " in told and "b200" not in told
