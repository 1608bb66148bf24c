"""Without a profiler a winner whose kernels were read stays one; one whose kernels nobody read does not."""

from __future__ import annotations

import dataclasses

import pytest

from d2k_agent.contract import EvaluatorJob, JobKind, Measurement, VerdictStatus, WorkloadResult
from d2k_agent.evaluator.faults import CandidateFault
from d2k_agent.evaluator.profiling import with_device_clock
from tests.evaluator.scaling import HONEST, job

TIMED = Measurement(mean_ms=2.0, calls=10, batches=5, outside_ms=2.0, policy="events_batch")
RESULT = WorkloadResult("large", VerdictStatus.PASSED, mean_ms=2.0, measurement=TIMED, kernels={"_scale": 1})
WORKLOADS = [{"label": "large", "n": 1 << 20}]


@pytest.fixture
def confirmation(monkeypatch: pytest.MonkeyPatch) -> EvaluatorJob:
    for name in ("PATH", "CUDA_HOME", "CUDA_PATH"):
        monkeypatch.setenv(name, "/nowhere")
    return job(HONEST, kind=JobKind.CONFIRM)


def test_kernels_that_a_capture_told_are_enough(confirmation: EvaluatorJob) -> None:
    (clocked,), notes = with_device_clock(confirmation, [RESULT], WORKLOADS, frozenset({"_scale"}))
    assert clocked == RESULT
    assert len(notes) == 1 and notes[0].startswith("no device clock for large: ")


def test_a_winner_of_which_nobody_can_tell_what_it_launches_is_refused(confirmation: EvaluatorJob) -> None:
    unread = dataclasses.replace(RESULT, kernels=None)
    with pytest.raises(CandidateFault, match="cannot be read: it cannot be captured, and ") as caught:
        with_device_clock(confirmation, [unread], WORKLOADS, frozenset({"_scale"}))
    assert caught.value.violations[0].check == "runtime.kernels"
    evaluation = dataclasses.replace(confirmation, kind=JobKind.EVALUATE)
    (clocked,), notes = with_device_clock(evaluation, [unread], WORKLOADS, frozenset({"_scale"}))
    assert clocked == unread and notes
