"""What audited steps say of a claim: slower in lockstep, or slower where contents are new."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

from d2k_agent.evaluator.timing import policy as rules
from d2k_agent.evaluator.timing.policy import TimingPolicy


@dataclass(frozen=True)
class Step:
    """One step by the supervisor's clock, from its word to begin to the process's word that all is done, and by the
    clock inside, which has no part in how long the words take.
    """

    wall_ms: float
    claim_ms: float


@dataclass
class Audit:
    """The steps of one workload: `steps` of `calls` calls each, and of `sets` calls each those with the `same`
    contents and with `new` ones. `irregular` is what the capture for the latter came to.
    """

    label: str
    policy: TimingPolicy
    calls: int = 0
    steps: list[Step] = field(default_factory=list)
    sets: int = 0
    same: list[Step] = field(default_factory=list)
    new: list[Step] = field(default_factory=list)
    irregular: dict[str, str] = field(default_factory=dict)

    @property
    def mean_ms(self) -> float | None:
        """Milliseconds a call by the supervisor's clock, in the middle one of the steps; None where there are none."""
        return statistics.median(step.wall_ms for step in self.steps) / self.calls if self.steps else None

    def suspicions(self, claimed_ms: float) -> dict[str, str]:
        """What speaks against so many milliseconds a call, by the name of the check."""
        if (
            self.mean_ms is not None
            and self.mean_ms > claimed_ms * (1 + self.policy.audit) + rules.AUDIT_STEP_MS / self.calls
        ):
            told = f"{self.mean_ms:.6g} ms a call when every step is checked, {claimed_ms:.6g} ms claimed"
            return {"timing.audit": f"timed work differs from audited work on {self.label}: {told}"}
        told = self._remembered(claimed_ms) if self.new else ""
        return {**self.irregular, **({"timing.audit": told} if told else {})}

    def _remembered(self, claimed_ms: float) -> str:
        slower = max(rules.FRESH_SLOWER, self.policy.audit)
        same = Step(*_best(self.same))
        new = Step(*_best(self.new))
        by_wall = new.wall_ms > (1 + slower) * same.wall_ms
        if by_wall or new.claim_ms > (1 + slower) * same.claim_ms + rules.FRESH_JITTER_MS:
            known_ms, new_ms = (same.wall_ms, new.wall_ms) if by_wall else (same.claim_ms, new.claim_ms)
            return (
                f"run() is slower on {self.label} where it cannot remember: {new_ms / self.sets:.6g} ms a call with "
                f"new contents, {known_ms / self.sets:.6g} ms with those of before"
            )
        most_ms = max(rules.FRESH_CLAIM, 1 + slower) * claimed_ms * self.sets
        by_wall = new.wall_ms > most_ms + rules.FRESH_STEP_MS
        if by_wall or new.claim_ms > most_ms + rules.FRESH_STEP_CLAIM_MS:
            known_ms, new_ms = (same.wall_ms, new.wall_ms) if by_wall else (same.claim_ms, new.claim_ms)
            return (
                f"run() takes longer on {self.label} in steps of {self.sets} calls than it claims, whatever their "
                f"contents: {new_ms / self.sets:.6g} ms a call with new ones, {known_ms / self.sets:.6g} ms with those "
                f"of before, {claimed_ms:.6g} ms claimed"
            )
        return ""


def _best(steps: Sequence[Step]) -> tuple[float, float]:
    """The shortest time by either clock: what disturbs a step makes it longer."""
    return min(step.wall_ms for step in steps), min(step.claim_ms for step in steps)
