"""The profiler's part in a job: a profile of one workload, and the fourth clock of results that passed."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from d2k_agent.contract import EvaluatorJob, JobKind, Profile, VerdictStatus, Violation, WorkloadResult
from d2k_agent.evaluator.evidence import own_launches, same_launches, unread
from d2k_agent.evaluator.faults import CandidateFault
from d2k_agent.evaluator.profiling.session import device_clock, profile_candidate
from d2k_agent.evaluator.profiling.unavailable import ProfileUnavailable

MOST_SURPLUS, SURPLUS_MS = 0.5, 0.02
"""The profiler runs kernels one by one, caches cold: it may see this fraction and this much more than the claim."""


def profile_of(job: EvaluatorJob, workload: dict[str, Any]) -> Profile:
    """The profile of the job's candidate on a workload. Raises as profile_candidate() does."""
    return profile_candidate(
        job.candidate, job.task.public["get_inputs.py"], workload, **_bounds(job), wish=job.profile
    )


def with_device_clock(
    job: EvaluatorJob, results: Sequence[WorkloadResult], workloads: Sequence[dict[str, Any]], own: frozenset[str]
) -> tuple[list[WorkloadResult], list[str]]:
    """The results with the profiler's clock beside the others, and notes on what it did not see.

    A candidate is not blamed for failing under the profiler: it passed without. Raises CandidateFault where one call
    does far more work than was timed, or launches others than its `own` kernels, or than it launched when captured; and
    where a confirmation is the last to tell what it launches, and cannot.
    """
    by_label = {workload["label"]: workload for workload in workloads}
    clocked, notes = [], []
    for result in results:
        try:
            device_ms, seen = device_clock(
                job.candidate, job.task.public["get_inputs.py"], by_label[result.label], **_bounds(job)
            )
        except (ProfileUnavailable, CandidateFault) as problem:
            if result.kernels is None and job.kind is JobKind.CONFIRM:
                raise unread(result.label, _brief(problem)) from problem
            notes.append(f"no device clock for {result.label}: {problem}")
            clocked.append(result)
            continue
        kernels = own_launches(seen, own, result.label)
        same_launches(result.kernels, kernels, result.label)
        assert result.measurement is not None
        if device_ms > result.measurement.mean_ms * (1 + MOST_SURPLUS) + SURPLUS_MS:
            told = (
                f"{result.label}: the kernels of one call take {device_ms:.6g} ms by the profiler's clock, far more "
                f"than the {result.measurement.mean_ms:.6g} ms claimed: what is timed must be the whole work of run()"
            )
            raise CandidateFault(VerdictStatus.RULE_VIOLATION, told, (Violation("timing.device", told),))
        measurement = replace(result.measurement, device_ms=device_ms)
        clocked.append(replace(result, measurement=measurement, kernels=kernels))
    return clocked, notes


def _brief(problem: ProfileUnavailable | CandidateFault) -> str:
    return problem.brief if isinstance(problem, CandidateFault) else str(problem)


def _bounds(job: EvaluatorJob) -> dict[str, Any]:
    return {
        "scratch_parent": tempfile.gettempdir(),
        "limit_s": job.limits.compile_s,
        "unsafe": job.unsafe_no_sandbox,
    }
