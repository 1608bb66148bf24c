"""A stopping policy over a run: the first turn after which it would have ended one that is over, or ends one now."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from d2k_agent.records import Point, PolicyStopped
from d2k_agent.study.policies import Decision, FloorsFor, Gain, Headroom, Policy


@dataclass(frozen=True)
class Stop:
    """The turn after which a policy ends a run, None where it never does, and the decision that tells why.

    Where it never does, that is the first of those in which it could not tell, else its last one.
    """

    after_turn: int | None
    decision: Decision


def first_stop(points: Sequence[Point], policy: Policy, floors_for: FloorsFor) -> Stop:
    """Ask `policy` after every turn of a run with what was recorded until then. `points` are those of a History."""
    blind, decision = None, Decision(False, "no turn was completed")
    for turn in range(1, len(points)):
        decision = policy.decide(points[: turn + 1], floors_for)
        if decision.stop:
            return Stop(points[turn].turn, decision)
        if decision.stop is None and blind is None:
            blind = decision
    return Stop(None, blind or decision)


def stop_rule(policy: Policy, floors_for: FloorsFor) -> Callable[[Sequence[Point]], PolicyStopped | None]:
    """The same policy for a run that goes on: given its points so far, what is recorded where it ends."""

    def rule(points: Sequence[Point]) -> PolicyStopped | None:
        decision = policy.decide(points, floors_for)
        if not decision.stop:
            return None
        return PolicyStopped(turn=points[-1].turn, policy=policy.text, why=decision.why, numbers=dict(decision.numbers))

    return rule


def never_stops(policy: Policy, *, floored: bool, priced: bool, on_a_cpu: bool = False) -> str | None:
    """Why `policy` cannot end a run that is about to begin, None where it may.

    `floored`: there are floors of its task, `priced`: its replies have a price, `on_a_cpu`: its
    candidates are judged on one.
    """
    if isinstance(policy, Headroom) and not floored:
        return f"{policy.text} will not stop this run: no floor of its task is known"
    if isinstance(policy, Gain) and policy.percent_per_mtok is None and not priced:
        return (
            f"{policy.text} will not stop this run: its replies have no known price, and no percent-per-mtok is given"
        )
    if on_a_cpu:
        return f"{policy.text} will not stop this run: nothing is measured on a CPU, so that nothing is eligible"
    return None
