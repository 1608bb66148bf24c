"""Two verdicts on one source compared: is what the earlier one claims found again?

Covers: status, checks, latencies and speedups, and whether the circumstances let latencies be compared. Does not cover:
judging again (app) and wording (verified_text).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from d2k_agent.contract import Verdict, WorkloadResult
from d2k_agent.reports.tables import UNKNOWN, milliseconds, number
from d2k_agent.reports.tolerances import TOLERANCES

TASK = "task digest"
CIRCUMSTANCES: dict[str, Callable[[Verdict], object]] = {
    TASK: lambda verdict: verdict.environment.task_digest,
    "evaluator digest": lambda verdict: verdict.environment.evaluator_digest,
    "machine": lambda verdict: verdict.environment.machine,
    "device": lambda verdict: verdict.environment.device_name,
    "GPU": lambda verdict: _gpus(verdict),
    "ranks": lambda verdict: verdict.environment.details.get("ranks"),
    "driver": lambda verdict: verdict.environment.driver,
    "CUDA": lambda verdict: verdict.environment.details.get("cuda"),
    "torch": lambda verdict: verdict.environment.torch,
    "triton": lambda verdict: verdict.environment.triton,
    "python": lambda verdict: verdict.environment.python,
    "target": lambda verdict: verdict.environment.target,
    "isolation": lambda verdict: verdict.environment.isolation,
    "timing policy": lambda verdict: _policies(verdict),
    "baseline": lambda verdict: verdict.baseline_sha256,
}
"""What has to be the same for two latencies to be comparable, as a reader calls it."""
DIGESTS = frozenset((TASK, "evaluator digest", "baseline"))
"""Circumstances that are a sha256."""
MEASURED_ONLY = frozenset(("timing policy", "baseline"))
"""Circumstances of a measurement: no difference where one of the verdicts has none."""


@dataclass(frozen=True)
class Difference:
    """Something in which the two verdicts differ, in words; `decides`: the earlier verdict does not hold with it."""

    what: str
    before: str
    now: str
    decides: bool


@dataclass(frozen=True)
class Latencies:
    """A registered workload that both verdicts, or one of them, measured. `tolerance` is a fraction.

    `within` is None where the latencies are not to be compared.
    """

    workload: str
    before_ms: float | None
    now_ms: float | None
    before_speedup: float | None
    now_speedup: float | None
    tolerance: float | None
    within: bool | None

    @property
    def ratio(self) -> float | None:
        """The latency now over the one before."""
        return None if self.before_ms is None or self.now_ms is None else self.now_ms / self.before_ms


@dataclass(frozen=True)
class Comparison:
    """Where an earlier verdict and one of now differ. `comparable`: latencies may be compared."""

    before: Verdict
    now: Verdict
    differences: tuple[Difference, ...]
    latencies: tuple[Latencies, ...]
    comparable: bool

    @property
    def verified(self) -> bool:
        """True where all that the earlier verdict claims, as far as it can be compared, was found again."""
        return not any(difference.decides for difference in self.differences)


def compare(before: Verdict, now: Verdict) -> Comparison:
    """Compare two verdicts on one source. Raises ValueError for verdicts on two.

    Another task decides, since its verdict is about something else. Under other circumstances (evaluator, machine,
    versions, policy, baseline) status and checks decide, and latencies stand side by side.
    """
    if before.candidate_sha256 != now.candidate_sha256:
        raise ValueError("verdicts on two sources cannot be compared")
    circumstances = list(_circumstances(before, now))
    comparable = not circumstances
    latencies = _latencies(before, now, comparable)
    differences = [*circumstances, *_found(before, now)]
    if comparable and before.status is now.status:
        differences += _timed_otherwise(before, now, latencies)
    return Comparison(before, now, tuple(differences), latencies, comparable)


def _measured(verdict: Verdict) -> dict[str, WorkloadResult]:
    return {item.label: item for item in verdict.workloads if item.registered and item.measurement is not None}


def _gpus(verdict: Verdict) -> str | None:
    details = verdict.environment.details
    gpus = details.get("gpus")  # a file may hold anything there
    return ", ".join(map(str, gpus)) if isinstance(gpus, list) and gpus else details.get("uuid")


def _policies(verdict: Verdict) -> str | None:
    found = {item.measurement.policy for item in verdict.workloads if item.measurement is not None}
    return ", ".join(sorted(found)) or None


def _circumstances(before: Verdict, now: Verdict) -> Iterator[Difference]:
    for what, of in CIRCUMSTANCES.items():
        one, other = of(before), of(now)
        if one == other or (what in MEASURED_ONLY and None in (one, other)):
            continue
        yield Difference(what, _told(one), _told(other), decides=what == TASK)


def _told(value: object) -> str:
    return UNKNOWN if value is None else str(value)


def _found(before: Verdict, now: Verdict) -> Iterator[Difference]:
    """What is found of the candidate itself. Values are not compared: their inputs come from two seeds."""
    if before.status is not now.status:
        yield Difference("status", before.status, now.status, decides=True)
    one, other = _failed(before), _failed(now)
    if one != other:
        yield Difference("failed checks", _listed(one), _listed(other), decides=True)
    if before.status is now.status and now.status.acceptable:
        yield from _checked_otherwise(before, now)


def _checked_otherwise(before: Verdict, now: Verdict) -> Iterator[Difference]:
    """Workloads on which one of two good verdicts made checks that the other did not."""
    one, other = _checks(before), _checks(now)
    for label in dict.fromkeys([*one, *other]):
        had, has = one.get(label, ()), other.get(label, ())
        if set(had) != set(has):
            yield Difference(f"checks on {label}", _listed(had), _listed(has), decides=not set(had) <= set(has))
    if before.environment.task_digest == now.environment.task_digest:
        yield from _limited_otherwise(before, now)


def _limited_otherwise(before: Verdict, now: Verdict) -> Iterator[Difference]:
    """Limits that are not the task's. Values belong to the draws of a seed, and limits to nobody's choice."""
    one, other = _limits(before), _limits(now)
    for name in sorted(one.keys() & other.keys()):
        if one[name] != other[name]:
            yield Difference(f"limits of {name}", _numbers(one[name]), _numbers(other[name]), decides=True)


def _limits(verdict: Verdict) -> dict[str, set[float]]:
    found: dict[str, set[float]] = {}
    for result in verdict.workloads:
        for check in result.checks:
            if check.limit is not None:
                found.setdefault(f"{check.output} {check.gate} on {result.label}", set()).add(check.limit)
    return found


def _numbers(values: set[float]) -> str:
    return ", ".join(map(number, sorted(values)))


def _failed(verdict: Verdict) -> tuple[str, ...]:
    rules = [item.check if item.line is None else f"{item.check} at line {item.line}" for item in verdict.violations]
    gates = [
        f"{check.output} {check.gate} of {result.label}"
        for result in verdict.workloads
        for check in result.checks
        if not check.passed
    ]
    return tuple(sorted({*rules, *gates}))


def _checks(verdict: Verdict) -> dict[str, tuple[str, ...]]:
    """The checks made on each workload; a label that comes again is numbered, since variations may share one."""
    found: dict[str, tuple[str, ...]] = {}
    for result in verdict.workloads:
        again = sum(label.partition(" #")[0] == result.label for label in found)
        label = f"{result.label} #{again + 1}" if again else result.label
        found[label] = tuple(f"{check.output} {check.gate}" for check in result.checks) or ("judged",)
    return found


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(names) or "none"


def _latencies(before: Verdict, now: Verdict, comparable: bool) -> tuple[Latencies, ...]:
    one, other = _measured(before), _measured(now)
    return tuple(_pair(label, one.get(label), other.get(label), comparable) for label in dict.fromkeys([*one, *other]))


def _pair(label: str, before: WorkloadResult | None, now: WorkloadResult | None, comparable: bool) -> Latencies:
    before_ms, now_ms = (None if item is None else item.mean_ms for item in (before, now))
    before_speedup, now_speedup = (None if item is None else item.speedup for item in (before, now))
    measurement = None if now is None else now.measurement
    rules = None if measurement is None else TOLERANCES.get(measurement.policy)
    tolerance = None if rules is None else rules.noise
    within = None
    if comparable and before_ms is not None and now_ms is not None and tolerance is not None:
        within = _near(before_ms, now_ms, tolerance)
    return Latencies(label, before_ms, now_ms, before_speedup, now_speedup, tolerance, within)


def _near(before: float, now: float, tolerance: float) -> bool:
    return abs(now / before - 1) <= tolerance


def _timed_otherwise(before: Verdict, now: Verdict, latencies: tuple[Latencies, ...]) -> Iterator[Difference]:
    """Latencies and speedups that were not found again, in either direction: a faster one is another measurement too.

    What the earlier verdict does not claim cannot be missing.
    """
    for item in latencies:
        if item.within is False:
            yield Difference(
                f"latency on {item.workload}", milliseconds(item.before_ms), milliseconds(item.now_ms), True
            )
        if item.tolerance is not None:
            yield from _ratio(f"speedup on {item.workload}", item.before_speedup, item.now_speedup, item.tolerance)
    tolerances = [item.tolerance for item in latencies if item.tolerance is not None]
    if tolerances:
        yield from _ratio("geomean speedup", before.geomean_speedup, now.geomean_speedup, max(tolerances))


def _ratio(what: str, before: float | None, now: float | None, tolerance: float) -> Iterator[Difference]:
    if before is not None and (now is None or not _near(before, now, tolerance)):
        yield Difference(what, number(before), number(now), decides=True)
