"""What may end a run early: read once when it begins, recorded with it, and the same in a run that is resumed."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from d2k_agent.app.ceilings import KnownCeilings
from d2k_agent.app.launching import surely_on_a_cpu
from d2k_agent.app.stopping import EarlyEnd, early_end
from d2k_agent.app.surroundings import Surroundings
from d2k_agent.catalog import find_task
from d2k_agent.config import RunConfig
from d2k_agent.contract.ceilings import Ceiling, Ceilings, Provenance
from d2k_agent.errors import UsageError
from d2k_agent.records import Point, RunRecord
from tests.cli.runs import call, script
from tests.cli.shell import environment
from tests.reports.curved import a_turn, record
from tests.study.replayed import points_of, trace_of

SLOW = Ceilings("NVIDIA H200", copy_gb_s=Ceiling(1.0, Provenance("measured", "a test")))
"""A GPU on which every latency of these tests is below the floor."""
COUNTER = """
import sys
executed = []
sys.addaudithook(lambda event, found: executed.extend(found[1]) if event == "subprocess.Popen" else None)
from d2k_agent.cli.entry import main
status = main(sys.argv[1:])
print("executed", sum(str(word).endswith("arithmetic.py") for word in executed), "status", status)
"""


@pytest.fixture
def known(tmp_path: Path) -> KnownCeilings:
    return KnownCeilings(Surroundings(tmp_path, {"HOME": str(tmp_path)}, tmp_path, "python"))


def run_of(policy: str | None) -> RunConfig:
    return RunConfig(task="muon", model="some/model", protocol="efficient", stop_policy=policy)


def measured_points() -> Sequence[Point]:
    """The points of a run whose one candidate was measured on both workloads of a task that has two."""
    return points_of(trace_of(a_turn(1, 2.0)))


def begun(known: KnownCeilings) -> EarlyEnd:
    """A run of a task with the workloads of the recorded candidates, under `headroom`."""
    found = early_end(run_of("headroom"), find_task("muon"), known.every)
    assert found is not None
    return dataclasses.replace(found, counts=dict(zip(("small", "large"), found.counts.values(), strict=False)))


def test_a_file_that_is_damaged_later_ends_no_run(known: KnownCeilings) -> None:
    path = known.keep(SLOW)
    early = begun(known)
    rule = early.rule()
    before = rule(measured_points())
    path.write_text("{")
    assert before is not None and rule(measured_points()) == before


def test_a_resumed_run_decides_by_what_was_recorded(known: KnownCeilings) -> None:
    path = known.keep(SLOW)
    early = begun(known)
    again = RunRecord.model_validate_json(record().model_copy(update={"ceilings": early.ceilings}).model_dump_json())
    assert SLOW.copy_gb_s in [item.copy_gb_s for item in again.ceilings]
    path.write_text("{")
    resumed = early_end(run_of("headroom"), early.task, lambda: again.ceilings)
    assert resumed is not None and resumed.ceilings == early.ceilings
    decision = dataclasses.replace(resumed, counts=early.counts).rule()(measured_points())
    assert decision is not None and decision == early.rule()(measured_points())


@pytest.mark.parametrize("policy", [None, "plateau", "headroom"])
def test_a_damaged_file_is_told_before_a_run_that_needs_it_and_no_other(
    policy: str | None, known: KnownCeilings
) -> None:
    known.keep(SLOW).write_text("{")
    if policy != "headroom":
        early_end(run_of(policy), find_task("muon"), known.every)
        return
    with pytest.raises(UsageError, match="remove it, or measure again"):
        early_end(run_of(policy), find_task("muon"), known.every)


@pytest.mark.parametrize(
    ("device", "evaluator", "hidden", "cpu"),
    [
        ("cpu", None, {}, True),
        ("cpu", "ssh gpu-host", {}, True),
        ("auto", "ssh gpu-host", {}, False),
        ("auto", None, {"CUDA_VISIBLE_DEVICES": ""}, True),
    ],
)
def test_where_nothing_can_be_measured_is_known_before_a_run(
    device: str, evaluator: str | None, hidden: dict[str, str], cpu: bool, tmp_path: Path
) -> None:
    around = Surroundings(tmp_path, {"HOME": str(tmp_path), **hidden}, tmp_path, "python")
    config = dataclasses.replace(run_of("plateau"), device=device, evaluator=evaluator)
    assert surely_on_a_cpu(around, config) is cpu


def test_the_counts_of_a_task_are_executed_once_for_its_judge_and_once_for_its_policy(tmp_path: Path) -> None:
    model = script(tmp_path, call("bash", command="true"))
    options = ["--model", model, "--protocol", "efficient", "--stop-policy", "headroom", "--device", "cpu"]
    done = subprocess.run(
        [sys.executable, "-c", COUNTER, "solve", "muon", *options],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "executed 2 status 0" in done.stdout, done
    assert "headroom:factor=1.2 will not stop this run: nothing is measured on a CPU" in done.stdout + done.stderr
