"""Jobs that look at a candidate's kernels on a GPU and judge nothing: a profile, a check by compute-sanitizer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from d2k_agent.contract import EvaluatorJob, JobKind
from d2k_agent.evaluator.findings import Findings
from d2k_agent.evaluator.profiling import ProfileUnavailable, profile_of
from d2k_agent.evaluator.sanitizing import SanitizerUnavailable, sanitized


def look(
    job: EvaluatorJob,
    registered: Sequence[dict[str, Any]],
    smoke: Sequence[Mapping[str, Any]],
    found: Findings,
) -> None:
    """Note the profile of the first registered workload, or what is found at the smoke ones that the job asks for.

    Where there is neither, a note says why. Raises CandidateFault, TaskFault, IsolationRefused and OSError.
    """
    try:
        if job.kind is JobKind.PROFILE:
            found.profile = profile_of(job, registered[0])
        else:
            found.sanitizer = sanitized(job, [item for item in smoke if _asked_for(job, item)])
    except ProfileUnavailable as problem:
        found.notes.append(f"no profile: {problem}; see the compile report")
    except SanitizerUnavailable as problem:
        found.notes.append(f"no {job.check}: {problem}")


def nothing_to_see(job: EvaluatorJob) -> list[str]:
    """What is said of a job that looks at kernels, on a CPU; nothing of other jobs."""
    where = "candidates ran on the CPU"
    if job.kind is JobKind.PROFILE:
        return [f"no profile: {where}, where there is nothing to profile; see the compile report"]
    if job.kind is JobKind.SANITIZE:
        return [f"no {job.check}: {where}, and it looks at kernels on a GPU; use a machine with one"]
    return []


def _asked_for(job: EvaluatorJob, workload: Mapping[str, Any]) -> bool:
    return not job.workloads or workload["label"] in job.workloads
