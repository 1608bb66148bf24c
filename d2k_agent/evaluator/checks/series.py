"""Correctness of a series of calls: new inputs at the same addresses before each, every output compared.

A candidate that answers from a cache, only the first calls honestly, or from memory it never wrote, fails here. State
that calls change is drawn anew before the first call, the third, and so on; the calls between go on from what the one
before left, as it does in use. The last call of the longest series is made again with the same inputs (repeating.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from d2k_agent.contract import Check, Limits, VerdictStatus, WorkloadResult
from d2k_agent.contract.wording import counted
from d2k_agent.evaluator.checks.calls import Calls
from d2k_agent.evaluator.checks.holding import Holding
from d2k_agent.evaluator.checks.repeating import REPEAT, left_by_call, repeat_checks, repeats_of
from d2k_agent.evaluator.devices import Device, Lent
from d2k_agent.evaluator.faults import CandidateFault
from d2k_agent.evaluator.process import CandidateProcess
from d2k_agent.evaluator.ranges import span
from d2k_agent.evaluator.task import Expected, LoadedTask, derive


@dataclass(frozen=True)
class Series:
    """`calls` calls of run() on fresh draws of one workload, or of one hidden variation of it; then `repeats` calls on
    the last draw."""

    label: str
    workload: dict[str, Any]
    calls: int
    vary: str | None = None
    late: bool = False
    repeats: int = 0


def planned(task: LoadedTask, device: Device, late: bool) -> list[Series]:
    """The series of a task on a device: smoke workloads (the first many times, and repeated), then hidden variations.

    `late` selects the expensive variations, which run last and once per source.
    """
    series = []
    if not late:
        first, *others = task.smoke
        repeats = repeats_of(device, task.repeat_calls)
        series.append(Series(first["label"], first, task.repeat_calls, repeats=repeats))
        series += [Series(workload["label"], workload, 2) for workload in others]
    for variation in task.variations:
        if bool(variation.get("late")) == late and device.name in variation.get("devices", ["cpu", "cuda"]):
            workload = variation["workload"]
            series.append(Series(variation["name"], workload, 1 if late else 2, variation["vary"], late))
    return series


@dataclass
class Budget:
    """Seconds that a job may wait for calls, all of them together: what drawing and comparing take is ours."""

    left_s: float

    @contextmanager
    def spending(self, limit_s: float) -> Iterator[float]:
        """Yields the bound of one call. Raises CandidateFault where it is the budget that ran out."""
        bound_s = min(limit_s, self.left_s)
        began = time.monotonic()
        try:
            yield bound_s
        except CandidateFault as fault:
            if fault.status is VerdictStatus.TIMED_OUT and bound_s < limit_s:
                told = "all calls of run() together took longer than a job may; make it faster on the smoke workloads"
                raise CandidateFault(VerdictStatus.TIMED_OUT, told) from fault
            raise
        finally:
            self.left_s = max(0.0, self.left_s - (time.monotonic() - began))


class SeriesRunner:
    """Runs series in one candidate process and says what each came to."""

    _checker: type[Calls] = Calls

    def __init__(
        self,
        task: LoadedTask,
        device: Device,
        process: CandidateProcess,
        seed: str,
        limits: Limits,
        budget: Budget,
        progress: Callable[[str], None],
        trusted: bool = False,
    ) -> None:
        self._task, self._device, self._process = task, device, process
        self._seed, self._limits, self._progress = seed, self._bounded(limits), progress
        self._budget = budget
        self._calls = self._checker(task, device, process, self._limits, trusted)

    def _bounded(self, limits: Limits) -> Limits:
        """The limits of this runner."""
        return limits

    def run(self, series: Series) -> WorkloadResult:
        """One series to its end or to its first failure. Raises CandidateFault where a rule was broken."""
        with span("workload", series.label):
            return self._run(series)

    def _run(self, series: Series) -> WorkloadResult:
        lent: Lent | None = None
        failed = False
        worst: dict[tuple[str, str], Check] = {}
        try:
            for call in range(series.calls):
                self._progress(f"checking {series.label}, call {call + 1} of {series.calls}")
                arguments = self._draw(series, call)
                if lent is not None and call % 2:
                    for item, left in zip(self._task.mutated, lent.state(), strict=True):
                        arguments[item.position] = left
                expected = self._task.expected(arguments)
                if lent is None:
                    state = [item.position for item in self._task.mutated]
                    lent = self._device.lend(arguments, expected.headers, state)
                    holding = Holding(self._device)
                    self._calls.attach([lent])
                    self._calls.warm_up(series.label, lent)
                else:
                    lent.refresh(arguments)
                    self._device.settle()
                checks = [*self._call(series, lent, expected), *holding.checks()]
                if call == series.calls - 1 and all(check.passed for check in checks):
                    checks += self._repeated(series, lent, expected)
                for check in checks:
                    keep_worst(worst, _after(check, call))
                if not all(check.passed for check in checks):
                    return _result(series, VerdictStatus.INCORRECT, worst, call)
        except CandidateFault as fault:
            failed = True
            if fault.violations:
                raise
            # What an exception says of a hidden input is not for the candidate's author to read.
            message = fault.message if series.vary is None else fault.brief
            checks = [Check("*", "call", None, None, False, message)]
            return WorkloadResult(series.label, fault.status, tuple(checks), registered=False, message=message)
        finally:
            if lent is not None:
                self._calls.detach(failed)
                lent.close()
        return _result(series, VerdictStatus.UNTIMED, worst, series.calls - 1)

    def _call(self, series: Series, lent: Lent, expected: Expected) -> list[Check]:
        limit_s = self._limits.late_call_s if series.late else self._limits.call_s
        with self._budget.spending(limit_s) as left_s:
            return self._calls.checked(series.label, series.workload, lent, expected, left_s)

    def _repeated(self, series: Series, lent: Lent, expected: Expected) -> list[Check]:
        """Checks of the calls that repeat the last one, up to the first that fails."""
        if not series.repeats:
            return []
        earlier, found = left_by_call(lent, expected), list[Check]()
        for number in range(series.repeats):
            self._progress(f"checking {series.label}, the last call again ({number + 1} of {series.repeats})")
            lent.refresh(lent.arguments)
            self._device.settle()
            checks = repeat_checks(self._task, lent, expected, earlier, self._call(series, lent, expected))
            found += checks
            if not all(check.passed for check in checks):
                break
        return found

    @property
    def peak_memory_bytes(self) -> int | None:
        """The most bytes of tensors alive in a call so far."""
        return self._calls.peak_memory_bytes

    @property
    def tuning_s(self) -> float:
        """Seconds that first calls took, in which kernels were compiled and tuned."""
        return self._calls.tuning_s

    def _draw(self, series: Series, call: int) -> list[Any]:
        seed = derive(self._seed, series.label, "draw", call)
        arguments = self._task.arguments(series.workload, seed, self._device.name)
        if series.vary is None:
            return arguments
        return self._task.vary(series.vary, arguments, derive(self._seed, series.label, "vary", call))


def _after(check: Check, call: int) -> Check:
    """A failed check of a later call says so: being right only at first is its own kind of wrong."""
    if check.passed or call == 0 or check.gate == REPEAT:
        return check
    message = f"call {call + 1} of one process: {check.message}; earlier calls were right"
    return Check(check.output, check.gate, check.value, check.limit, False, message)


def keep_worst(worst: dict[tuple[str, str], Check], check: Check) -> None:
    """Note a check: of each gate the first failure stays, else the value nearest its limit."""
    key = (check.output, check.gate)
    known = worst.get(key)
    if known is None or not check.passed or (known.passed and _worse(check, known)):
        worst[key] = check


def _worse(check: Check, known: Check) -> bool:
    if check.value is None or known.value is None:
        return known.value is None
    return check.value < known.value if check.gate == "allclose_share" else check.value > known.value


def _result(series: Series, status: VerdictStatus, worst: dict[tuple[str, str], Check], call: int) -> WorkloadResult:
    checks = tuple(worst.values())
    failed = [check for check in checks if not check.passed]
    return WorkloadResult(
        series.label,
        status,
        checks,
        registered=False,
        rel_norm=worst_norm(checks),
        message=f"{series.label}: {failed[0].message or failed[0].gate}" if failed else counted(call + 1, "call"),
    )


def worst_of(checks: Sequence[Check]) -> tuple[Check, ...]:
    """Of each gate of each output one check: its first failure, else the value nearest its limit."""
    worst: dict[tuple[str, str], Check] = {}
    for check in checks:
        keep_worst(worst, check)
    return tuple(worst.values())


def worst_norm(checks: Sequence[Check]) -> float | None:
    """The largest relative norm among checks; None where there is none."""
    norms = [check.value for check in checks if check.gate == "rel_norm" and check.value is not None]
    return max(norms) if norms else None
