"""A candidate under compute-sanitizer from end to end: its folder, the run, and what the tool says."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

from d2k_agent.contract import EvaluatorJob, SanitizerCheck, SanitizerReport, VerdictStatus
from d2k_agent.evaluator.faults import CandidateFault, TaskFault
from d2k_agent.evaluator.process import IsolationRefused, raised
from d2k_agent.evaluator.profiling import target
from d2k_agent.evaluator.profiling.ncu import TARGET, Finished, describe_tool, find_program, tool_environment
from d2k_agent.evaluator.profiling.report import Progress
from d2k_agent.evaluator.profiling.session import order_in, run_target, surroundings
from d2k_agent.evaluator.sanitizing.output import read_errors, read_totals

NAME = "compute-sanitizer"
PRINTED = 100
"""Errors that the tool prints; it counts the others."""
MISSING = (
    "compute-sanitizer was not found on the PATH, in CUDA_HOME or below /usr/local/cuda*: install it, it comes with "
    "the CUDA toolkit, or put it on the evaluator's PATH"
)
_PLACES = ("/usr/local/cuda/bin/compute-sanitizer", "/usr/local/cuda*/bin/compute-sanitizer")
_ALLOCATIONS = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
"""Each tensor is an allocation of its own: in PyTorch's pools the tool could not tell one from the next."""


class SanitizerUnavailable(Exception):
    """The machine or the tool gave no answer; the candidate is not to blame. The text is one sentence."""


def sanitized(job: EvaluatorJob, workloads: Sequence[Mapping[str, Any]]) -> SanitizerReport:
    """The job's check of its candidate at these workloads. Raises as sanitize_candidate() does."""
    return sanitize_candidate(
        job.candidate,
        job.task.public["get_inputs.py"],
        workloads,
        job.check,
        scratch_parent=tempfile.gettempdir(),
        limit_s=job.limits.compile_s,
        unsafe=job.unsafe_no_sandbox,
    )


def sanitize_candidate(
    source: str,
    generator: str,
    workloads: Sequence[Mapping[str, Any]],
    check: SanitizerCheck,
    *,
    scratch_parent: str,
    limit_s: float,
    unsafe: bool,
    environment: Mapping[str, str] | None = None,
    device: str = "cuda",
) -> SanitizerReport:
    """What the tool says of one call of the candidate's run() on each workload.

    Arguments as profile_candidate() has them. Raises SanitizerUnavailable where the machine cannot, CandidateFault
    where the candidate raised or ended without an error of the tool's, TaskFault, IsolationRefused, and OSError.
    """
    given = surroundings(environment)
    found = find_program(NAME, given, _PLACES)
    if found is None:
        raise SanitizerUnavailable(MISSING)
    with tempfile.TemporaryDirectory(prefix="sanitize-", dir=scratch_parent, ignore_cleanup_errors=True) as made:
        folder = os.path.realpath(made)
        order = order_in(folder, source, generator, workloads, device=device, unsafe=unsafe, warm_up=0, flush=False)
        argv, around = command_line(found, check), {**tool_environment(given, order["scratch"]), **_ALLOCATIONS}
        progress, finished = run_target(argv, order, around, folder, limit_s)
    tool = describe_tool(found, given.get("PATH", os.defpath), NAME)
    return report_of(progress, finished, check, tool, [str(item["label"]) for item in workloads], limit_s)


def command_line(tool: str, check: SanitizerCheck) -> list[str]:
    """The whole command: nothing in it comes from a candidate, a task or a model."""
    return [
        tool,
        *("--tool", check.value),
        *("--target-processes", "application-only"),
        *("--print-limit", str(PRINTED)),
        *("--show-backtrace", "device"),
        *(("--report-api-errors", "no") if check is SanitizerCheck.MEMCHECK else ()),
        *TARGET,
    ]


def report_of(
    progress: Progress, finished: Finished, check: SanitizerCheck, tool: str, labels: Sequence[str], limit_s: float
) -> SanitizerReport:
    """What the tool found, or whose fault it is that it found nothing to say."""
    first, totals = read_errors(finished.output), read_totals(finished.output)
    _require_start(progress)
    if first:
        counted = totals.errors if totals else sum(error.printed for error in first)
        why = "what it printed was cut" if finished.cut else "the tool did not come to its end"
        notes = () if totals else (f"{why}: there may be more",)
        return SanitizerReport(check, tool, tuple(labels), counted, totals.warnings if totals else None, first, notes)
    if progress.kind == target.RAISED:
        raise raised(progress.payload, progress.stage or "the candidate")
    if finished.timed_out:
        raise SanitizerUnavailable(
            f"{check} did not finish within {limit_s:.0f} s ({progress.stage or 'before the candidate began'}), and "
            "everything it started was ended: kernels are many times slower under it; check fewer workloads"
        )
    if progress.stage is not None and progress.kind != target.DONE:
        raise CandidateFault(VerdictStatus.ENDED_EARLY, f"the candidate's process ended during {progress.stage}")
    if totals is None or progress.kind != target.DONE:
        raise SanitizerUnavailable(f"{NAME} did not carry its target through: {finished.last_words()}")
    notes = ("the tool names no kernel for what it counted",) if totals.errors or totals.warnings else ()
    return SanitizerReport(check, tool, tuple(labels), totals.errors, totals.warnings, notes=notes)


def _require_start(progress: Progress) -> None:
    text = progress.payload.decode("utf-8", "replace")
    if progress.kind == target.UNABLE:
        raise SanitizerUnavailable(text)
    if progress.kind == target.REFUSED:
        raise IsolationRefused(text)
    if progress.kind == target.BROKEN_TASK:
        raise TaskFault(text)
