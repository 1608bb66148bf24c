"""What a report says of one run: its curve, its cost and its circumstances, without the events that they come from.

Covers: reducing a trace to that, and which runs may stand beside each other. Does not cover: how it is printed
(curve_text), passed on (curve_data) or drawn (page).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from d2k_agent.contract import Environment, VerdictStatus
from d2k_agent.contract.wording import counted
from d2k_agent.records import (
    Confirmation,
    Cost,
    Curve,
    Point,
    PolicyStopped,
    RunFinished,
    RunRecord,
    SelectionConfirmed,
    Submission,
    Trace,
    curve,
    recorded_cost,
)
from d2k_agent.reports.headroom import Headroom
from d2k_agent.reports.measured_text import DIGEST_CHARS
from d2k_agent.reports.run_header import run_rows
from d2k_agent.reports.tables import NOT_READ, number
from d2k_agent.reports.told_turns import ToldTurn, told_turns

HANDED_IN = ("turn", "candidate", "outcome", "speedup")


@dataclass(frozen=True)
class Circumstances:
    """What two runs must have in common before their scores stand in one picture, as text a reader knows.

    `machine` is None where nothing was judged, `baseline` where the task has none.
    """

    task: str
    protocol: str
    isolation: str
    machine: str | None
    baseline: str | None

    def differences(self, other: Circumstances) -> list[str]:
        """The names of what differs."""
        return [name for name, value in vars(self).items() if value != getattr(other, name)]


@dataclass(frozen=True)
class RunReport:
    """One run. `driven`: a process is at it now. `facts` are names and values, `notes` sentences about what to mind.

    `handed_in` has a row a submission (HANDED_IN names its columns), `told` the trace, which may be cut for its length
    or left out (None).
    `source` is the text of the candidate that stands for the run, None where there is none or it is not at hand, and
    `headroom` says how far it was above the modelled floors, as far as those are known.
    """

    name: str
    folder: str
    record: RunRecord
    driven: bool
    curve: Curve
    cost: Cost
    finished: RunFinished | None
    confirmed: SelectionConfirmed | None
    circumstances: Circumstances
    facts: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]
    handed_in: tuple[tuple[str, ...], ...]
    told: tuple[ToldTurn, ...] | None
    source: str | None = None
    headroom: tuple[Headroom, ...] = ()

    @property
    def state(self) -> str:
        """Its stop reason, or that it is not over."""
        if self.finished is not None:
            return self.finished.stop_reason.value
        return "running" if self.driven else "interrupted"

    @property
    def chosen(self) -> str | None:
        """The digest of the candidate that stands for the run, ranked or not."""
        if self.finished is not None:
            choice = self.finished.selection or self.finished.provisional
            return None if choice is None else choice.sha256
        best = self.curve.end.best
        return None if best is None else best.sha256


def run_report(trace: Trace, name: str, folder: str, *, driven: bool, most_chars: int | None) -> RunReport:
    """Reduce a run; at most `most_chars` characters of its trace are kept, nothing of it where that is None.

    Raises ValueError for records that contradict each other.
    """
    found = curve(trace)
    for point in (*found.points, found.end):
        _require_possible(point)
    cost = recorded_cost(trace.events, trace.run.price)
    environments = [item.verdict.environment for item in _judged(trace)]
    return RunReport(
        name=name,
        folder=folder,
        record=trace.run,
        driven=driven,
        curve=found,
        cost=cost,
        finished=trace.finished,
        confirmed=trace.confirmed,
        circumstances=_circumstances(trace, environments),
        facts=tuple(_facts(trace)),
        notes=(*_notes(trace, found, environments, driven), *_gaps(trace, found, cost)),
        handed_in=tuple(_handed_in(item) for item in trace.submissions),
        told=None if most_chars is None else told_turns(trace, most_chars),
    )


def _require_possible(point: Point) -> None:
    """Records of a stranger may hold any number; those that nothing can be drawn of are refused here."""
    spent = point.spent
    if not (math.isfinite(point.score) and point.score > 0):
        raise ValueError(f"turn {point.turn} has a score of {point.score}")
    for name, value in (("US$", spent.cost_usd), ("GPU seconds", spent.gpu_seconds)):
        if value is not None and not (math.isfinite(value) and value >= 0):
            raise ValueError(f"turn {point.turn} had taken {value} {name}")


def _handed_in(item: Submission) -> tuple[str, ...]:
    speedup = NOT_READ if item.geomean_speedup is None else number(item.geomean_speedup)
    return str(item.turn), item.sha256[:DIGEST_CHARS], item.verdict.status.value, speedup


def _judged(trace: Trace) -> list[Submission | Confirmation]:
    return [*trace.submissions, *trace.confirmations]


def groups(runs: Sequence[RunReport]) -> list[list[RunReport]]:
    """The runs by circumstances, in the order in which each kind comes first: none is compared across."""
    found: dict[Circumstances, list[RunReport]] = {}
    for run in runs:
        found.setdefault(run.circumstances, []).append(run)
    return list(found.values())


def _circumstances(trace: Trace, environments: Sequence[Environment]) -> Circumstances:
    record = trace.run
    return Circumstances(
        task=f"{record.task_slug} {record.task_digest[:DIGEST_CHARS]}",
        protocol=" + ".join((record.config.protocol, *record.config.more_tools)),
        isolation=str(record.isolation.get("kind", "unknown")),
        machine=_each(f"{item.device_name} ({item.machine})" for item in environments) or None,
        baseline=_baselines(trace),
    )


def _baselines(trace: Trace) -> str | None:
    used = (item.times.baseline_sha256 for item in trace.submissions if item.times is not None)
    digests = [digest for digest in (trace.run.baseline_sha256, *used) if digest]
    return _each(digest[:DIGEST_CHARS] for digest in digests) or None


def _facts(trace: Trace) -> Iterator[tuple[str, str]]:
    record = trace.run
    yield from run_rows(trace)
    yield "protocol", " + ".join((record.config.protocol, *record.config.more_tools))
    yield "baseline", _baselines(trace) or "none"
    policies = _each(
        workload.measurement.policy
        for item in _judged(trace)
        if item.times is not None
        for workload in item.times.workloads
        if workload.measurement is not None
    )
    if policies:
        yield "timed by", policies
    if record.price is not None:
        yield "prices", f"{record.price.source}, {record.price.date or 'without a date'}"
    yield "versions", ", ".join(f"{name} {version}" for name, version in record.versions.items()) or "unknown"


def _notes(trace: Trace, found: Curve, environments: Sequence[Environment], driven: bool) -> Iterator[str]:
    """What a reader of the scores must know, a sentence each."""
    if trace.finished is None:
        turns = counted(trace.turns, "turn")
        yield f"is {'still running' if driven else 'interrupted'}: what stands here is as it was after {turns}"
    if trace.run.origin is not None:
        yield trace.run.origin
    if trace.run.config.model.startswith("scripted/"):
        yield "no model wrote it: its replies are a script written by hand"
    elif trace.run.config.model.startswith("replay/"):
        yield "no model was asked: its replies are those of a recorded run"
    stopped = next((event for event in trace.events if isinstance(event, PolicyStopped)), None)
    if stopped is not None:
        yield f"its stopping policy {stopped.policy} ended it after turn {stopped.turn}: {stopped.why}"
    if found.end.best is None:
        yield _why_unranked(trace, environments)
    if trace.refused:
        yield f"{counted(len(trace.refused), 'candidate')} failed when judged again and is in no score"
    if trace.confirmed is not None and trace.confirmed.sha256 is not None:
        yield f"its selection: {trace.confirmed.note}"
    if len({(item.device_name, item.machine) for item in environments}) > 1:
        yield "its verdicts come from more than one machine, so its scores do not compare with each other"


def _gaps(trace: Trace, found: Curve, cost: Cost) -> Iterator[str]:
    """What of tokens, dollars and GPU time is not known."""
    totals = trace.totals
    replies = counted(totals.replies, "reply", "replies")
    if totals.unreported_replies:
        yield f"{totals.unreported_replies} of {replies} came without a complete count of tokens"
    if totals.lost_attempts:
        yield f"{counted(totals.lost_attempts, 'request')} may have been billed although no answer came"
    if totals.replies and trace.run.price is None:
        yield "no prices were recorded with it"
    elif cost.unpriced_replies:
        yield f"{cost.unpriced_replies} of {replies} could not be priced"
    if found.end.spent.gpu_lower_bound:
        yield "GPU time of evaluations that were cut off was not recorded"


def _why_unranked(trace: Trace, environments: Sequence[Environment]) -> str:
    fallback = "so its score is the fallback of 0.1"
    if not trace.submissions:
        return f"nothing was handed in, {fallback}"
    if any(item.verdict.status is VerdictStatus.UNTIMED for item in trace.submissions):
        where = _each(item.device_name for item in environments)
        return f"nothing was measured ({where}), {fallback} and says nothing about its candidates"
    return f"none of {counted(len(trace.submissions), 'submission')} was eligible, {fallback}"


def _each(values: Iterable[str]) -> str:
    return ", then ".join(dict.fromkeys(values))
