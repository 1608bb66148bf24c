"""Arguments that calls change: each call adds to what is there, in checked calls and in timed ones."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from d2k_agent.contract import JobKind, VerdictStatus
from d2k_agent.launchers import ProcessLauncher
from tests.evaluator import counting
from tests.evaluator.scaling import job

ROOT = Path(__file__).parents[2]
SKIPS_WHEN_RUSHED = (
    counting.KERNEL
    + """
calls = 0


def run(x, load, latest):
    global calls
    calls += 1
    return counted(x, load, latest, adds=calls <= 3 or calls % 7 == 0)
"""
)
LEAVES_LATEST = (
    counting.KERNEL
    + """
calls = 0


def run(x, load, latest):
    global calls
    calls += 1
    return counted(x, load, latest if calls <= 3 else torch.empty_like(latest))
"""
)


@pytest.fixture(scope="module")
def launcher() -> Iterator[ProcessLauncher]:
    launcher = ProcessLauncher({"PATH": os.environ["PATH"], "HOME": "/tmp"})
    yield launcher
    launcher.close()


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (counting.HONEST, ""),
        (counting.NEVER_ADDS, "changed by 0 in 1 call"),
        (counting.OVERWRITES, "in 1 call, "),
        (counting.ADDS_TWICE, "in 1 call, "),
        (counting.ADDS_TO_ITS_OWN, "call 3 of one process"),
    ],
)
def test_each_checked_call_adds_once_to_what_is_there(launcher: ProcessLauncher, source: str, message: str) -> None:
    verdict = launcher.launch(job(source, task=counting.task(n=2000), device="cpu", trusted=True))
    assert verdict.status.acceptable == (not message), verdict.message
    assert message in verdict.message
    if message:
        failed = [check for result in verdict.workloads for check in result.checks if not check.passed]
        assert [(check.output, check.gate) for check in failed] == [("load", "counter")]


def test_the_task_itself_can_tell_state_from_state(launcher: ProcessLauncher) -> None:
    verdict = launcher.launch(job("", task=counting.task(), kind=JobKind.PROVE, device="cpu"))
    assert verdict.status is VerdictStatus.UNTIMED, verdict.message
    checked = {check.gate for result in verdict.workloads for check in result.checks}
    assert {"load left as it was", "load overwritten", "load added to twice", "latest left as it was"} <= checked
    assert "latest overwritten" not in checked


CANDIDATES = {
    False: {"honest": counting.HONEST, "leaves": LEAVES_LATEST, "overwrites": counting.OVERWRITES},
    True: {"honest": counting.HONEST, "skips": SKIPS_WHEN_RUSHED},
}


def timed(graph: bool) -> dict[str, Any]:
    asked = {
        "task": "counting",
        "baseline": counting.HONEST,
        "beat": 1e9,
        "n": 600,
        "graph": graph,
        "segment_s": 0.3,
        "step_ms": 2.0,
        "noise": 2.0,
    }
    done = subprocess.run(
        [sys.executable, "-m", "tests.evaluator.timed_on_cpu"],
        input=json.dumps(asked | {"sources": {name: [source] for name, source in CANDIDATES[graph].items()}}),
        capture_output=True, text=True, cwd=ROOT, timeout=240, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return {answer["name"]: answer for answer in map(json.loads, done.stdout.splitlines())}


@pytest.mark.parametrize("graph", CANDIDATES)
def test_timed_calls_leave_what_as_many_calls_leave(graph: bool) -> None:
    answers = timed(graph)
    (honest,) = answers.pop("honest")["results"]
    assert honest["status"] == "passed", honest["message"]
    assert {(check["output"], check["gate"]) for check in honest["checks"]} >= {("load", "counter")}
    for name, answer in answers.items():
        (result,) = answer["results"]
        assert result["status"] == "incorrect", name
        failed = [check["output"] for check in result["checks"] if not check["passed"]]
        assert failed == ["latest" if name == "leaves" else "load"], name
