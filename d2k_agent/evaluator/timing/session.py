"""Candidate and baseline in one session: A B B A, drift, speedups.

The baseline stays up in a process of its own, at rest while a candidate is timed. A candidate's process ends before the
baseline is timed again, so that nothing it left behind can slow the baseline down.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Self

from d2k_agent.contract import MOST_DRIFT, Check, Limits, Measurement, VerdictStatus, Violation
from d2k_agent.evaluator.checks.calls import lacks_memory
from d2k_agent.evaluator.devices import Device
from d2k_agent.evaluator.evidence import libraries_allowed
from d2k_agent.evaluator.faults import CandidateFault, TaskFault
from d2k_agent.evaluator.process import CandidateProcess
from d2k_agent.evaluator.ranks.choosing import timer_of
from d2k_agent.evaluator.task import LoadedTask, derive
from d2k_agent.evaluator.timing.measure import WorkloadTimer, WrongAnswer
from d2k_agent.evaluator.timing.segment import Timed

Start = Callable[[], CandidateProcess]
"""A fresh process of one source, not entered yet."""


@dataclass
class Outcome:
    """What timing one candidate came to, per workload label.

    `failed` is the label of the workload that failed with `checks` of it wrong, or that was `noisy`; nothing is
    measured then. `kernels` are the launches of one call (None: not read), `seconds` those spent on first calls
    ("tuning") and on timed ones, the baseline's included.
    """

    measured: dict[str, Measurement] = field(default_factory=dict)
    checks: dict[str, list[Check]] = field(default_factory=dict)
    baseline: dict[str, Measurement] = field(default_factory=dict)
    failed: str | None = None
    noisy: str | None = None
    drift: float | None = None
    notes: list[str] = field(default_factory=list)
    peak_memory_bytes: int | None = None
    kernels: dict[str, dict[str, int] | None] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def ratios_hold(self) -> bool:
        """False where the baseline moved too much for a speedup to mean anything."""
        return self.drift is None or self.drift <= MOST_DRIFT

    def is_noisy(self, label: str, how: str) -> bool:
        """Note that a workload did not settle; False."""
        self.failed = self.noisy = label
        self.notes.append(f"{label}: {how}")
        return False

    def speedup(self, label: str) -> float | None:
        """The baseline's latency over the candidate's; None where there is none, it is void, or the two were timed in
        different ways.
        """
        if label not in self.baseline or not self.ratios_hold or self.unlike(label):
            return None
        return self.baseline[label].mean_ms / self.measured[label].mean_ms

    def unlike(self, label: str) -> str:
        """How candidate and baseline were timed, where that is not one policy; empty where it is."""
        own, other = self.measured[label].policy, self.baseline[label].policy
        return "" if own == other else f"{label} was timed by {own}, its baseline by {other}: no speedup"

    def geomean_speedup(self) -> float | None:
        """The geometric mean over all workloads; None where one has no speedup."""
        return geomean([self.speedup(label) for label in self.measured])


@dataclass(frozen=True)
class Setting:
    """What is timed with what. `seed` and `trusted` are the job's own; `progress` is told what is being done.

    `own` are the names of the candidate's kernels.
    """

    task: LoadedTask
    device: Device
    workloads: Sequence[dict[str, Any]]
    seed: str
    limits: Limits
    progress: Callable[[str], None]
    trusted: bool = False
    own: frozenset[str] = frozenset()

    def timer(self, process: CandidateProcess, workload: dict[str, Any], purpose: str, trusted: bool) -> WorkloadTimer:
        """A timer of one workload with draws of its own."""
        seed = derive(self.seed, purpose)
        return timer_of(self.task, self.device, process, workload, seed, self.limits, self.progress, trusted)


class Baseline:
    """A task's baseline, loaded once and at rest between measurements. One that failed is ended."""

    def __init__(self, process: CandidateProcess) -> None:
        self._process = process
        self.latest: dict[str, Measurement] = {}

    @classmethod
    def start(cls, start: Start, setting: Setting) -> Self:
        """Load it. Raises TaskFault where it fails: the task's author wrote it."""
        setting.progress("starting the baseline")
        with ExitStack() as held:
            process = held.enter_context(start())
            try:
                process.load()
            except CandidateFault as fault:
                raise TaskFault(f"task {setting.task.slug}: baseline.py: {fault.message}") from fault
            held.pop_all()  # it stays, until close()
        return cls(process)

    @property
    def pids(self) -> list[int]:
        """Its processes, which must outlive candidates."""
        return self._process.pids

    @property
    def ended(self) -> bool:
        """True where another has to be started."""
        return self._process.ended

    def covers(self, setting: Setting) -> bool:
        """True where all workloads were measured before."""
        return {workload["label"] for workload in setting.workloads} <= set(self.latest)

    def measure(self, setting: Setting, seconds: dict[str, float]) -> dict[str, Measurement]:
        """Its latencies now, kept as the latest ones; the time it took is added to `seconds`.

        Raises TaskFault where it is wrong or fails, OSError where it is the machine. Whatever fails, it is ended
        then: it may owe an answer, and memory that was lent to it goes back.
        """
        try:
            return self._measured(setting, seconds)
        except BaseException:
            self.close()
            raise

    def _measured(self, setting: Setting, seconds: dict[str, float]) -> dict[str, Measurement]:
        setting.progress("timing the baseline")
        try:
            for workload in setting.workloads:
                with setting.timer(self._process, workload, "baseline", trusted=True) as timer:
                    timer.prepare(checked=workload["label"] not in self.latest)
                    timed = timer.measure(audited=False)
                    if timed.spread > setting.task.timing(workload["label"]).noise:
                        timed = timer.measure(audited=False)
                    self.latest[workload["label"]] = timed.measurement
                    _add(seconds, timer.seconds)
        except CandidateFault as fault:
            if fault.status in (VerdictStatus.OUT_OF_MEMORY, VerdictStatus.TIMED_OUT):
                told = f"the baseline could not be timed ({fault.message}); end what else uses the GPU, then try again"
                raise OSError(told) from fault
            raise TaskFault(f"task {setting.task.slug}: baseline.py: {fault.message}") from fault
        except WrongAnswer as wrong:
            failed = next(check for check in wrong.checks if not check.passed)
            raise TaskFault(f"task {setting.task.slug}: baseline.py is wrong: {failed.message}") from wrong
        return dict(self.latest)

    def close(self) -> None:
        """End it."""
        self._process.__exit__()


class Running:
    """The candidate's process, loaded when it is first asked for. A context manager, which ends it.

    Only one is there at a time: what ends one ends all that it left behind. `served` holds the labels of what the one
    that is there was called with, `libraries` the names of those that any of them loaded.
    """

    def __init__(self, start: Start) -> None:
        self._start = start
        self._held = ExitStack()
        self._process: CandidateProcess | None = None
        self.served: set[str] = set()
        self.libraries: set[str] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    @property
    def process(self) -> CandidateProcess:
        """The process that is there, or a fresh one. Raises CandidateFault where the source does not load."""
        if self._process is None or self._process.ended:
            self.end()
            with ExitStack() as held:
                process = held.enter_context(self._start())
                process.load()
                self._held = held.pop_all()
            self._process = process
        return self._process

    def end(self) -> None:
        """End the process; the next one asked for is fresh."""
        self._process, self.served = None, set()
        self._held.close()

    def look(self) -> None:
        """Note the libraries that the process has loaded. Raises CandidateFault where one of them computes."""
        if self._process is not None:
            self.libraries |= libraries_allowed(self._process.libraries(), self._process.scratch)

    def serves_others(self, label: str) -> bool:
        """Note that the process is called with that workload next; True where it was with others before.

        What it keeps for their shapes counts in its memory now: only a process of its own tells what this one takes.
        """
        crowded = bool(self.served - {label})
        self.served.add(label)
        return crowded


class Comparison:
    """Times one candidate against the baseline, if there is one.

    The baseline was measured before (Baseline.covers). `beat` is the speedup above which the candidate is measured
    A B B A (None: in any case).

    Workloads are timed one after another, and the first that is wrong, suspicious twice or noisy ends the session. What
    is right is timed on all of them, however slow the first shows it to be: nothing here bounds a latency from below,
    so the others may always make up for one in the mean, and what is second now is selected where the best is refused
    at its confirmation.
    """

    def __init__(self, setting: Setting, running: Running, baseline: Baseline | None, beat: float | None) -> None:
        self._setting, self._running, self._baseline, self._beat = setting, running, baseline, beat

    def run(self) -> Outcome:
        """The outcome. The process that runs is the one timed; a suspicion, a lack of memory in a process that served
        other workloads, and a second session after drift take a fresh one.

        Raises CandidateFault: its violations name the clock that the claim does not agree with.
        """
        outcome = self._once()
        if outcome.failed or outcome.ratios_hold:
            return outcome
        self._setting.progress(f"the baseline moved by {outcome.drift:.1%}; measuring again")
        again = self._once(careful=True)
        if not again.failed and not again.ratios_hold:
            again.notes.append("measured twice, and the baseline moved both times: see what else uses the GPU")
        return again

    def _once(self, careful: bool = False) -> Outcome:
        """One session; `careful` makes it A B B A whatever the first B comes to."""
        setting, baseline = self._setting, self._baseline
        labels = {workload["label"] for workload in setting.workloads}
        outcome = Outcome()
        if baseline is not None:
            outcome.baseline = {label: baseline.latest[label] for label in labels}
        for workload in setting.workloads:
            if not self._time(workload, outcome):
                return outcome
        outcome.notes += filter(None, map(outcome.unlike, outcome.baseline))
        if baseline is None or not (careful or self._may_win(outcome)):
            return outcome
        for workload in setting.workloads:
            if not self._time(workload, outcome, again=True):
                return outcome
        self._running.end()
        after = baseline.measure(setting, outcome.seconds)
        outcome.drift = max(abs(after[label].mean_ms / outcome.baseline[label].mean_ms - 1) for label in labels)
        outcome.baseline = {label: together(outcome.baseline[label], after[label]) for label in labels}
        return outcome

    def _may_win(self, outcome: Outcome) -> bool:
        speedup = outcome.geomean_speedup()
        return speedup is not None and (self._beat is None or speedup > self._beat)

    def _time(self, workload: dict[str, Any], outcome: Outcome, again: bool = False) -> bool:
        """Time one workload, `again` to add to what is known; what is suspicious must repeat in a fresh process."""
        label = workload["label"]
        timed = self._attempt(workload, outcome, "again" if again else "candidate")
        if timed is not None and timed.suspicions:
            self._running.end()
            first, timed = timed, self._attempt(workload, outcome, f"suspicion {again}")
            if timed is not None:
                _repeated(timed.suspicions)
                outcome.notes.append(f"{label} was timed again: {'; '.join(first.suspicions.values())}")
        if timed is None:
            return False
        known = outcome.measured.get(label) if again else None
        if known is None:
            outcome.measured[label] = timed.measurement
            return True
        change = abs(timed.measurement.mean_ms / known.mean_ms - 1)
        if change > self._setting.task.timing(label).noise:
            return outcome.is_noisy(label, f"two rounds differ by {change:.1%}")
        outcome.measured[label] = together(known, timed.measurement)
        return True

    def _attempt(self, workload: dict[str, Any], outcome: Outcome, purpose: str) -> Timed | None:
        """One measurement, made once more where it was noisy; None, and said in `outcome`, where it failed."""
        label, lacking = workload["label"], False
        noise = self._setting.task.timing(label).noise
        process, crowded = self._running.process, self._running.serves_others(workload["label"])
        with self._setting.timer(process, workload, purpose, self._setting.trusted) as timer:
            timer.own = None if self._setting.trusted else self._setting.own
            try:
                timer.prepare()
                timed = timer.measure(audited=not self._setting.trusted)
                if timed.spread > noise:
                    timed = timer.measure(audited=not self._setting.trusted)
                # Suspicions are looked into in a fresh process. Of what is noisy, this is the last that is heard.
                last = timed.spread > noise or not timed.suspicions
                if last and not self._setting.trusted:
                    outcome.kernels[label] = timer.observe(self._setting.own)
                    self._running.look()
            except WrongAnswer as wrong:
                timed, lacking = None, lacks_memory(wrong.checks)
            except CandidateFault as fault:
                if not crowded or fault.status is not VerdictStatus.OUT_OF_MEMORY:
                    raise
                timed, lacking = None, True
        _add(outcome.seconds, timer.seconds)
        if lacking and crowded:
            self._running.end()
            outcome.notes.append(f"{label} was timed in a fresh process: one that served other workloads lacked memory")
            return self._attempt(workload, outcome, f"{purpose} alone")
        if timed is not None and outcome.kernels.get(label, {}) is None:
            self._running.end()  # a capture that failed may have left anything
        outcome.checks.setdefault(label, []).extend(timer.checks)
        outcome.notes += [note for note in (timed.notes if timed else ()) if note not in outcome.notes]
        peaks = [item for item in (outcome.peak_memory_bytes, timer.peak_memory_bytes) if item is not None]
        outcome.peak_memory_bytes = max(peaks, default=None)
        if timed is None:
            outcome.failed = label
            return None
        told = [f"timed segments differ by {timed.spread:.1%}, twice"] if timed.spread > noise else []
        if self._setting.trusted:
            # A reference may wait for the host, and nothing is won with it: whatever its clocks say accuses nobody.
            outcome.notes += [f"{label}: {words}" for words in [*told, *timed.suspicions.values()]]
            return dataclasses.replace(timed, suspicions={})
        # Before any suspicion: clocks that do not agree with themselves accuse nobody of not agreeing with each other.
        if told:
            outcome.is_noisy(label, told[0])
            return None
        return timed


def _add(total: dict[str, float], seconds: Mapping[str, float]) -> None:
    for name, value in seconds.items():
        total[name] = total.get(name, 0.0) + value


def _repeated(suspicions: Mapping[str, str]) -> None:
    """Raises CandidateFault where a source that was suspicious before is so in a fresh process, in whatever way."""
    violations = tuple(Violation(name, text) for name, text in suspicions.items())
    if violations:
        told = f"{violations[0].message}, in two processes: what is timed must be the whole work of run()"
        raise CandidateFault(VerdictStatus.RULE_VIOLATION, told, violations)


def together(one: Measurement, other: Measurement) -> Measurement:
    """Two measurements of one thing as one. Each counts alike: more calls in the same time are no better evidence."""

    def mean(first: float, second: float) -> float:
        return (first + second) / 2

    def known(first: float | None, second: float | None) -> float | None:
        return first if second is None else second if first is None else (first + second) / 2

    sent = [item.link_bytes for item in (one, other) if item.link_bytes is not None]
    return Measurement(
        mean_ms=mean(one.mean_ms, other.mean_ms),
        calls=one.calls + other.calls,
        batches=one.batches + other.batches,
        outside_ms=mean(one.outside_ms, other.outside_ms),
        policy=one.policy,
        audit_ms=known(one.audit_ms, other.audit_ms),
        device_ms=known(one.device_ms, other.device_ms),
        hot_ms=known(one.hot_ms, other.hot_ms),
        sets=one.sets,
        sm_mhz=known(one.sm_mhz, other.sm_mhz),
        power_w=known(one.power_w, other.power_w),
        link_bytes=tuple(sum(counts) / len(sent) for counts in zip(*sent, strict=True)) if sent else None,
    )


def geomean(values: Sequence[float | None]) -> float | None:
    """The geometric mean; None for no values, or where one is None."""
    known = [value for value in values if value is not None]
    if not known or len(known) < len(values):
        return None
    return math.exp(sum(map(math.log, known)) / len(known))
