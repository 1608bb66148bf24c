"""The stopping policy of a run: from its text and the floors of its task to what the loop asks after every turn."""

from __future__ import annotations

from typing import TYPE_CHECKING

from d2k_agent.app.ceilings import KnownCeilings
from d2k_agent.app.surroundings import Surroundings

if TYPE_CHECKING:
    from d2k_agent.agent import Stopping
    from d2k_agent.catalog import Task
    from d2k_agent.config import RunConfig
    from d2k_agent.models import PriceRow
    from d2k_agent.records import Submission
    from d2k_agent.study import BestFloors, FloorsFor


def stopping_of(around: Surroundings, config: RunConfig, task: Task) -> Stopping | None:
    """What may end a run early, None where nothing does.

    Raises UsageError for the text of a policy that is none, and for counts of the task that are not what they should
    be.
    """
    from d2k_agent.study import parse_policy, stop_rule

    if config.stop_policy is None:
        return None
    return stop_rule(parse_policy(config.stop_policy), floors_for(around, task))


def note_on_policy(config: RunConfig, task: Task, price: PriceRow | None) -> str | None:
    """What to know of a run's stopping policy before it begins, None where it has none."""
    from d2k_agent.catalog import counts_of
    from d2k_agent.study import never_stops, parse_policy

    if config.stop_policy is None:
        return None
    policy = parse_policy(config.stop_policy)
    blind = never_stops(policy, floored=bool(counts_of(task)), priced=price is not None)
    return blind or f"{policy.text} may end this run early; the model is not told"


def floors_for(around: Surroundings, task: Task | None) -> FloorsFor:
    """The floors of the task's best known algorithm, as `tasks show` has them: for an operator, never for a model.

    Raises UsageError where the file that has the task's counts is not what it should be.
    """
    from d2k_agent.catalog import cache_bytes, counts_of
    from d2k_agent.reports.headroom import floors_of
    from d2k_agent.study import BestFloors

    counts = {} if task is None else counts_of(task)
    known = KnownCeilings(around)

    def floors(submission: Submission) -> BestFloors | None:
        environment = submission.verdict.environment
        device = environment.device_name
        ceilings = known.best(device)
        if task is None or ceilings is None or submission.times is None:
            return None
        found = {
            item.label: floors_of(counts[item.label], ceilings, item.measurement.sets, cache_bytes(environment)).best
            for item in submission.times.workloads
            if item.measurement is not None and item.label in counts
        }
        best = {label: floor for label, floor in found.items() if floor is not None}
        bases = " and ".join(sorted({floor.basis for floor in best.values()}))
        source = f"the best known algorithm of {task.slug}, by its counts and the ceilings ({bases}) of {device}"
        return BestFloors({label: floor.ms for label, floor in best.items()}, source) if best else None

    return floors
