"""Arguments that calls change, on a GPU: restored where timed work begins, and checked where it ends."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from d2k_agent.contract import Limits, Verdict, VerdictStatus
from d2k_agent.launchers import ProcessLauncher
from tests.evaluator import counting
from tests.evaluator.gpus import evaluator_environment
from tests.evaluator.scaling import job

pytestmark = pytest.mark.gpu

LIMITS = Limits(gpu_call_s=20.0, compile_s=60.0)
TASKS = {"events_batch": counting.task(n=1 << 20), "graph_rotating": counting.task(n=1 << 14, mode="graph")}
SKIPS_LATE = (
    counting.KERNEL
    + """
calls = 0


def run(x, load, latest):
    global calls
    calls += 1
    return counted(x, load, latest, adds=calls <= 6 or calls % 7 == 0)
"""
)


@pytest.fixture(scope="module")
def launcher() -> Iterator[ProcessLauncher]:
    launcher = ProcessLauncher(evaluator_environment())
    yield launcher
    launcher.close()


def judged(launcher: ProcessLauncher, source: str, policy: str) -> Verdict:
    given = {"task": TASKS[policy], "target": None, "baseline": counting.HONEST, "device": "cuda"}
    return launcher.launch(job(source, LIMITS, static_rules=False, **given))


@pytest.mark.parametrize("policy", TASKS)
def test_an_honest_kernel_that_adds_is_measured(launcher: ProcessLauncher, policy: str) -> None:
    verdict = judged(launcher, counting.HONEST, policy)
    assert verdict.status is VerdictStatus.PASSED, (verdict.message, verdict.notes)
    (result,) = [item for item in verdict.workloads if item.registered]
    assert result.measurement is not None
    assert result.measurement.policy == policy
    assert {(check.output, check.gate) for check in result.checks} >= {("load", "counter"), ("latest", "close")}
    assert result.speedup == pytest.approx(1.0, abs=0.05), "the candidate is its own baseline"


@pytest.mark.parametrize("policy", TASKS)
def test_timed_calls_that_do_not_add_are_found(launcher: ProcessLauncher, policy: str) -> None:
    verdict = judged(launcher, SKIPS_LATE, policy)
    assert not verdict.status.acceptable, verdict.message
    failed = {check.output for result in verdict.workloads for check in result.checks if not check.passed}
    assert "load" in failed or verdict.violations
