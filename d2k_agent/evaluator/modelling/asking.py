"""What the supervisor does about a modelled latency: a process of its own, one order, one answer that is checked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from d2k_agent.contract import EvaluatorJob, VerdictStatus
from d2k_agent.contract.modelled import ModelledLatency, ModelledWorkload
from d2k_agent.contract.wire import from_data
from d2k_agent.evaluator.bench import Bench
from d2k_agent.evaluator.faults import CandidateFault
from d2k_agent.evaluator.findings import Findings
from d2k_agent.evaluator.modelling.serving import MODELLED
from d2k_agent.evaluator.process import decode

LIMIT_S = 120.0
"""Of a job that is about nothing else."""
_WALL = 4.0
"""How many seconds by the clock go by at most for one of the processor's; and some beyond that."""
_GRACE_S = 5.0


def model(bench: Bench, job: EvaluatorJob, target: str, workloads: Sequence[dict[str, Any]], found: Findings) -> None:
    """Have the job's candidate modelled at these workloads. Whatever goes wrong is why there is no latency.

    Raises IsolationRefused on a machine that cannot confine it.
    """
    if not workloads:
        return
    limit_s = job.modelling_s or LIMIT_S
    try:
        with bench.candidate(bench.interpreting, job, MODELLED) as process:
            process.order(
                {
                    "path": process.path,
                    "target": target,
                    "limit_s": limit_s,
                    "generator": job.task.public["get_inputs.py"],
                    "workloads": list(workloads),
                }
            )
            measures = process.answer(b"R", job.limits.import_s, "confining the candidate")
            found.isolation = measures.decode("ascii", "replace")
            payload = process.answer(b"K", _WALL * limit_s + _GRACE_S, "modelling")
        found.modelled = _checked(from_data(ModelledLatency, decode(payload)), target, workloads)
    except CandidateFault as fault:
        found.modelled = _none(target, workloads, fault.message)
    except ValueError:
        found.modelled = _none(target, workloads, "modelling answered out of protocol")


def _checked(told: ModelledLatency, target: str, workloads: Sequence[dict[str, Any]]) -> ModelledLatency:
    labels = [workload["label"] for workload in workloads]
    if told.target != target or [item.label for item in told.workloads] != labels:
        raise CandidateFault(VerdictStatus.ENDED_EARLY, "modelling answered about something else")
    return told


def _none(target: str, workloads: Sequence[dict[str, Any]], why: str) -> ModelledLatency:
    return ModelledLatency(target, tuple(ModelledWorkload(item["label"], None, why_not=why) for item in workloads))
