"""The stopping policy of a run: from its text and the floors of its task to what the loop asks after every turn."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from d2k_agent.agent import Stopping
    from d2k_agent.catalog import Counts, Task
    from d2k_agent.config import RunConfig
    from d2k_agent.contract.ceilings import Ceilings
    from d2k_agent.records import Submission
    from d2k_agent.study import BestFloors, FloorsFor, Policy


AS_RECORDED = "as the run recorded them when it began"
AS_KNOWN_TODAY = "as they are known here today"


@dataclass(frozen=True)
class EarlyEnd:
    """What may end a run early, read once. A policy that compares with no floor has no `counts` and no `ceilings`."""

    policy: Policy
    task: Task
    counts: Mapping[str, Counts]
    ceilings: tuple[Ceilings, ...]

    def rule(self) -> Stopping:
        """What the loop asks after every turn."""
        from d2k_agent.study import stop_rule

        known = {item.device_name: item for item in self.ceilings}
        return stop_rule(self.policy, floors_for(self.task, self.counts, known.get, AS_RECORDED))

    def note(self, *, priced: bool, on_a_cpu: bool) -> str:
        """What to know of the policy before the run begins, see never_stops()."""
        from d2k_agent.study import never_stops

        blind = never_stops(self.policy, floored=bool(self.counts), priced=priced, on_a_cpu=on_a_cpu)
        return blind or f"{self.policy.text} may end this run early; the model is not told"


def early_end(config: RunConfig, task: Task, ceilings: Callable[[], tuple[Ceilings, ...]]) -> EarlyEnd | None:
    """What may end a run early, None where nothing does. `ceilings` are asked for where a policy needs them.

    Raises UsageError for the text of a policy that is none, for counts of the task that are not what they should be,
    and what `ceilings` raises.
    """
    from d2k_agent.catalog import counts_of
    from d2k_agent.study import Headroom, parse_policy

    if config.stop_policy is None:
        return None
    policy = parse_policy(config.stop_policy)
    if not isinstance(policy, Headroom):
        return EarlyEnd(policy, task, {}, ())
    return EarlyEnd(policy, task, counts_of(task), ceilings())


def floors_for(
    task: Task | None, counts: Mapping[str, Counts], ceilings_of: Callable[[str], Ceilings | None], since: str
) -> FloorsFor:
    """The floors of the task's best known algorithm, as `tasks show` has them: for an operator, never for a model.

    `ceilings_of` gives what is known of the GPU of a name, and `since` says from when that is.
    """
    from d2k_agent.catalog import cache_bytes, counts_as_run
    from d2k_agent.reports.headroom import floors_of
    from d2k_agent.study import BestFloors

    def floors(submission: Submission) -> BestFloors | None:
        environment = submission.verdict.environment
        device = environment.device_name
        ceilings = ceilings_of(device)
        if task is None or ceilings is None or submission.times is None:
            return None
        found = {
            item.label: floors_of(
                counts_as_run(counts[item.label], environment.details),
                ceilings,
                item.measurement.sets,
                cache_bytes(environment),
            ).best
            for item in submission.times.workloads
            if item.measurement is not None and item.label in counts
        }
        best = {label: floor for label, floor in found.items() if floor is not None}
        bases = " and ".join(sorted({floor.basis for floor in best.values()}))
        source = (
            f"the best known algorithm of {task.slug}, by its counts and the ceilings ({bases}) of {device}, {since}"
        )
        return BestFloors({label: floor.ms for label, floor in best.items()}, source) if best else None

    return floors
