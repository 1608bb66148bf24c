"""The lines above a run's events: what it is and where it was judged, and nothing that is not recorded."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from d2k_agent.catalog import samples_dir
from d2k_agent.config import RunConfig
from d2k_agent.contract import Environment, VerdictStatus
from d2k_agent.records import Event, RunRecord, Trace, VerdictReached, read_trace
from d2k_agent.reports.run_header import run_header
from tests.reports.events import ENVIRONMENT, SHA, a_run, stamped, verdict

RECORD = RunRecord(
    run_id="r",
    created=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
    config=RunConfig(task="muon", model="some/model", levels=("L1", "L2"), turns=1350),
    task_slug="muon",
    task_digest="t",
    workloads=("small",),
    isolation={"kind": "landlock"},
)


def lines(trace: Trace) -> dict[str, str]:
    """The values by their names."""
    text = run_header(trace)
    column = len(max((line.split("  ")[0] for line in text.splitlines()), key=len)) + 2
    assert all(line[column - 1] == " " != line[column] for line in text.splitlines()), f"not aligned:\n{text}"
    return {line[:column].strip(): line[column:] for line in text.splitlines()}


def judged(*environments: Environment) -> list[Event]:
    found = verdict(VerdictStatus.UNTIMED)
    return stamped(
        *(
            VerdictReached(
                turn=1, call_id=f"c{n}", sha256=SHA, verdict=found.model_copy(update={"environment": environment})
            )
            for n, environment in enumerate(environments)
        )
    )


def test_the_sample_is_said_to_be_a_script_recorded_on_a_gpu() -> None:
    found = lines(read_trace(samples_dir() / "muon"))
    assert (found["task"], found["levels"], found["turns allowed"]) == ("muon", "L1, L2", "350")
    assert found["model"] == "hand-written script muon-walkthrough, no model wrote it"
    assert (found["GPU"], found["target"], found["isolation"]) == ("NVIDIA H200", "h200", "landlock")
    assert {"began", "evaluator's machine", "driver", "torch", "triton", "evaluator"} < found.keys()


def test_a_run_without_a_verdict_tells_no_machine_and_no_version() -> None:
    found = lines(Trace(RECORD, ()))
    assert list(found) == ["task", "levels", "model", "turns allowed", "began", "isolation"]
    assert (found["model"], found["turns allowed"]) == ("some/model", "1,350")
    assert found["began"] == f"{RECORD.created.astimezone():%Y-%m-%d %H:%M:%S %Z}"


def test_a_replay_is_said_to_be_one_and_an_isolation_that_is_not_recorded_is_left_out() -> None:
    config = RunConfig(task="muon", model="replay//runs/old")
    found = lines(Trace(RECORD.model_copy(update={"config": config, "isolation": {}}), ()))
    assert found["model"] == "recorded replies of /runs/old, no model was asked"
    assert found["levels"] == "none" and "isolation" not in found


def test_verdicts_of_a_cpu_name_no_gpu_and_no_driver() -> None:
    found = lines(Trace(RECORD, tuple(a_run())))
    assert found["candidates ran on"] == "CPU" and not {"GPU", "driver"} & found.keys()


@pytest.mark.parametrize(
    ("name", "before", "now"),
    [("triton", "3.7", "3.8"), ("torch", "2.13", "2.14"), ("target", "b200", "h200"), ("driver", "580", "590")],
)
def test_what_verdicts_agree_on_is_told_once_and_every_value_where_they_do_not(
    name: str, before: str, now: str
) -> None:
    first = replace(ENVIRONMENT, driver="580")
    found = lines(Trace(RECORD, tuple(judged(first, first, replace(first, **{name: now})))))
    assert found.pop(name) == f"{before}, then {now}"
    assert not any("then" in value for value in found.values())
