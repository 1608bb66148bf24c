"""Stopping policies replayed over recorded runs."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from d2k_agent.app.ceilings import KnownCeilings
from d2k_agent.app.reporting import read_runs, trace_of
from d2k_agent.app.stopping import AS_KNOWN_TODAY, AS_RECORDED, floors_for
from d2k_agent.app.surroundings import Surroundings
from d2k_agent.config import Settings
from d2k_agent.contract.wording import counted
from d2k_agent.errors import UsageError
from d2k_agent.reports.paths import command

if TYPE_CHECKING:
    from d2k_agent.catalog import Task
    from d2k_agent.records import RunFolder, RunRecord, Submission, Trace
    from d2k_agent.reports.stop_text import PolicyReplay
    from d2k_agent.study import BestFloors, FloorsFor, Policy


@dataclass(frozen=True)
class Replays:
    """Each policy over each run that could be replayed, `floors` where those are from that were compared with and in
    which runs, and a sentence by name for every other run."""

    replays: tuple[PolicyReplay, ...]
    floors: tuple[str, ...]
    problems: dict[str, str]


def replay_stops(
    around: Surroundings,
    names: Sequence[str],
    policies: Sequence[str],
    command_line: Settings,
    progress: Callable[[str], None],
) -> Replays:
    """Every policy (none named: a small grid of each kind) over every run named, as read_runs() finds them.

    Floors rest on the ceilings that a run recorded when it began, else on what is known here today.
    Raises UsageError for the text of a policy that is none.
    """
    from d2k_agent.study import DEFAULT_POLICIES, parse_policy

    parsed = list({policy.text: policy for policy in map(parse_policy, policies or DEFAULT_POLICIES)}.values())
    sources: dict[str, dict[str, None]] = {}

    def read(run: RunFolder, label: str, count: int) -> list[PolicyReplay]:
        trace = trace_of(run)
        _require_an_end(run, trace, label)
        known = _known_floors(around, trace.run)

        def noted(submission: Submission) -> BestFloors | None:
            floors = known(submission)
            if floors is not None:
                sources.setdefault(floors.source, {})[label] = None
            return floors

        return _replayed(trace, label, str(run.path), parsed, noted)

    found, problems = read_runs(around, names, command_line, progress, read)
    replays = tuple(replay for of_policy in zip(*found, strict=True) for replay in of_policy)
    return Replays(replays, tuple(f"{source} ({', '.join(runs)})" for source, runs in sources.items()), problems)


def _known_floors(around: Surroundings, record: RunRecord) -> FloorsFor:
    from d2k_agent.catalog import counts_of

    task = _shipped(record)
    counts = {} if task is None else counts_of(task)
    if record.ceilings:
        recorded = {item.device_name: item for item in record.ceilings}
        return floors_for(task, counts, recorded.get, AS_RECORDED)
    return floors_for(task, counts, KnownCeilings(around).best, AS_KNOWN_TODAY)


def _replayed(
    trace: Trace, label: str, folder: str, policies: Sequence[Policy], floors: FloorsFor
) -> list[PolicyReplay]:
    from d2k_agent.records import History, StopReason
    from d2k_agent.reports.curve_report import run_report
    from d2k_agent.reports.stop_text import PolicyReplay
    from d2k_agent.study import Decision, first_stop

    report = run_report(trace, label, folder, driven=False, most_chars=None)
    if report.curve.end.best is None:
        told = counted(len(trace.submissions), "submission")
        raise UsageError(
            f"{label} has no score: none of its {told} was measured and stands, so there is none to keep; name a run "
            "that was measured on a GPU"
        )
    history = History(trace.run.workloads)
    for event in trace.events:
        history.feed(event)
    replays = []
    for policy in policies:
        stop = first_stop(history.points, policy, floors)
        cut_off = stop.after_turn is None and report.state == StopReason.STOP_POLICY.value
        decision = Decision(None, "its own stopping policy ended the run before") if cut_off else stop.decision
        replay = PolicyReplay(
            policy.text, report, stop.after_turn, decision.stop is None, decision.why, decision.numbers
        )
        shares = (share for share in dataclasses.astuple(replay.saved) if share is not None)
        if not all(map(math.isfinite, (*shares, *replay.numbers.values()))):
            raise ValueError(f"{policy.text} finds numbers beyond all bounds")
        replays.append(replay)
    return replays


def _require_an_end(run: RunFolder, trace: Trace, label: str) -> None:
    if trace.finished is not None:
        return
    turns = counted(trace.turns, "turn")
    if run.driver() is not None:
        raise UsageError(f"{label} is still running, after {turns}, and its final score is not known; wait for its end")
    ways = f"`{command('resume', run.path)}` or `{command('stop', run.path)}`"
    raise UsageError(f"{label} was interrupted after {turns}, and its final score is not known; end it with {ways}")


def _shipped(record: RunRecord) -> Task | None:
    """The run's task where it ships and is the same still; of a stranger's task nothing is executed."""
    from d2k_agent.catalog import shipped_task

    task = shipped_task(record.config.task)
    return task if task is not None and task.bundle().digest == record.task_digest else None
