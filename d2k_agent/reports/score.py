"""The score of a run's winner on some machine: what was scored, where, and whether that is the GPU it was meant for."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from d2k_agent.contract import Environment, Verdict
from d2k_agent.contract.gpu import is_target
from d2k_agent.reports.verdict_data import verdict_data
from d2k_agent.reports.verdict_text import verdict_text

FORMAT = 1


@dataclass(frozen=True)
class Scored:
    """Which candidate of which run, and the GPU that it is meant for. `ranked`: the run's selection, else provisional.

    `why` is the run's own sentence on the choice. `judged_for` is the target that the run judged it for, None where
    that is not recorded.
    """

    run: str
    task: str
    turn: int
    sha256: str
    target: str
    ranked: bool
    why: str
    judged_for: str | None = None

    @property
    def title(self) -> str:
        """The candidate in words."""
        standing = "selection" if self.ranked else "provisional candidate, which the run did not measure"
        other = self.judged_for not in (None, self.target)
        judged = f" (the run itself was judged for {self.judged_for})" if other else ""
        return (
            f"{self.task}: turn {self.turn} of {self.run} ({standing}), sha256 {self.sha256[:12]}, "
            f"for {self.target}{judged}"
        )


def score_data(scored: Scored, verdict: Verdict, time: str, **origin: str | None) -> dict[str, Any]:
    """The score as one JSON object; `time` in ISO 8601, `origin` says how the machine was reached or what was opened.

    Scripts may rely on `status`, `on_target` (True only for what was measured on the target itself), `measured_on`
    (null where nothing was measured), `statement`, `geomean_speedup`, `scored`, `machine` and `verdict`.
    """
    return {
        "format": FORMAT,
        "time": time,
        **origin,
        "scored": dataclasses.asdict(scored),
        "status": verdict.status.value,
        "on_target": on_target(scored, verdict),
        "measured_on": measured_on(verdict),
        "statement": statement(scored, verdict),
        "geomean_speedup": verdict.geomean_speedup,
        "machine": dataclasses.asdict(verdict.environment),
        "policies": _policies(verdict),
        "verdict": verdict_data(verdict),
    }


def score_text(scored: Scored, verdict: Verdict) -> str:
    """The score in words: what, where, the verdict with its table."""
    lines = [scored.title, statement(scored, verdict), _machine(verdict.environment)]
    return "\n".join([*lines, "", verdict_text(dataclasses.replace(verdict, compile_report=None))])


def measured_on(verdict: Verdict) -> str | None:
    """The name of the device on which latencies were measured; None where none were."""
    measured = any(item.registered and item.measurement is not None for item in verdict.workloads)
    return verdict.environment.device_name if measured else None


def on_target(scored: Scored, verdict: Verdict) -> bool:
    """True when latencies were measured on the GPU that the candidate is meant for, and on nothing like it."""
    device = measured_on(verdict)
    return device is not None and is_target(device, scored.target)


def statement(scored: Scored, verdict: Verdict) -> str:
    """Where the score comes from, in one sentence that calls nothing but the target the target."""
    device = measured_on(verdict)
    if device is None:
        return f"nothing was measured on {verdict.environment.device_name}: this says nothing about {scored.target}"
    if on_target(scored, verdict):
        return f"measured on {device}, the target {scored.target}"
    return f"measured on {device}, which is not the target {scored.target}"


def _policies(verdict: Verdict) -> list[str]:
    return sorted({item.measurement.policy for item in verdict.workloads if item.measurement is not None})


def _machine(environment: Environment) -> str:
    driver = f"driver {environment.driver}, " if environment.driver else ""
    return (
        f"{environment.machine}; {driver}torch {environment.torch}, triton {environment.triton}, "
        f"Python {environment.python}"
    )
