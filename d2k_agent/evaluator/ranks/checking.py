"""Calls and series of several ranks: what is checked beyond what any task is checked for."""

from __future__ import annotations

import dataclasses
from typing import Any

from d2k_agent.contract import Check, Limits, VerdictStatus, WorkloadResult
from d2k_agent.evaluator.checks.calls import Calls
from d2k_agent.evaluator.checks.series import Series, SeriesRunner, worst_of
from d2k_agent.evaluator.devices import Lent
from d2k_agent.evaluator.faults import CandidateFault
from d2k_agent.evaluator.process import CandidateProcess
from d2k_agent.evaluator.ranks.device import CHAINED, RankedDevice
from d2k_agent.evaluator.ranks.group import RankGroup
from d2k_agent.evaluator.task import Expected, LoadedTask

ROUNDS = 2
WATCHDOG_S, WARM_UP_S, INTERPRETED_S = 20.0, 90.0, 60.0
"""The longest call where kernels run on a GPU; the longest first call on a workload in a process that was called
before: kernels are compiled for its shapes; and the longest call of small inputs where kernels are interpreted, which
takes two ranks a second or two, and more of them as much longer. Ranks that all wait for each other wait for ever."""


class CallsOfRanks(Calls):
    """Calls of which it is also checked that no rank wrote behind a workspace."""

    def __init__(
        self, task: LoadedTask, device: RankedDevice, process: CandidateProcess, limits: Limits, trusted: bool = False
    ) -> None:
        assert isinstance(process, RankGroup)
        super().__init__(task, device, process, limits, trusted)
        self._ranks, self._group = device, process

    def warm_up(self, label: str, lent: Lent) -> None:
        """As for any task; what that call left in the workspaces is of no use to the next."""
        super().warm_up(label, lent)
        self._group.warm = True
        if self._ranks.times and self._ranks.memory is not None:
            self._ranks.memory.poison()
            self._ranks.settle()

    def _first_call_s(self) -> float:
        return min(self._limits.compile_s, WARM_UP_S) if self._group.warm else self._limits.compile_s

    def checked(
        self, label: str, workload: dict[str, Any], lent: Lent, expected: Expected, limit_s: float, index: int = 0
    ) -> list[Check]:
        """One call on all ranks."""
        checks = super().checked(label, workload, lent, expected, limit_s, index)
        return [*overrun(self._ranks), *checks]

    def _order_decides(self, lent: Lent, expected: Expected, index: int) -> bool:
        """As for any task, twice: a race between ranks may be lost and won by turns as well."""
        return all(super(CallsOfRanks, self)._order_decides(lent, expected, index) for _ in range(2))


def overrun(device: RankedDevice) -> list[Check]:
    """A failed check where something was written behind a workspace since it was poisoned."""
    message = "bytes behind the workspace of rank {} were written: it ends after its workspace_bytes"
    ranks = device.memory.overrun()[:1] if device.memory else []
    return [Check("*", "workspace", None, None, False, message.format(rank)) for rank in ranks]


def watched(limits: Limits, device: RankedDevice) -> Limits:
    """Bounds of calls that wait for each other."""
    if not device.times:
        return dataclasses.replace(limits, call_s=min(limits.call_s, INTERPRETED_S * device.world / 2))
    return dataclasses.replace(
        limits,
        call_s=min(limits.call_s, WATCHDOG_S),
        late_call_s=min(limits.late_call_s, WATCHDOG_S),
        gpu_call_s=min(limits.gpu_call_s, WATCHDOG_S),
    )


class RankedSeries(SeriesRunner):
    """Series on several ranks. Behind the first one, and behind that of a variation that is not late, calls follow each
    other without a pause, some ranks held up: where a rank wants nothing of another, nothing else holds it back.
    """

    _checker = CallsOfRanks

    def __init__(self, task: LoadedTask, device: RankedDevice, process: RankGroup, *rest: Any) -> None:
        self._ranks, self._group = device, process
        super().__init__(task, device, process, *rest)

    def _bounded(self, limits: Limits) -> Limits:
        return watched(limits, self._ranks)

    def run(self, series: Series) -> WorkloadResult:
        """One series, and its chain where it has one."""
        result = super().run(series)
        first = series.workload["label"] == self._task.smoke[0]["label"]
        chained = first or (series.vary is not None and not series.late)
        return self._chain(series, result) if chained and result.status.acceptable else result

    def _chain(self, series: Series, result: WorkloadResult) -> WorkloadResult:
        """CHAINED calls over as many sets, ROUNDS times; what each left is compared."""
        lent: list[Lent] = []
        failed = False
        try:
            for turn in range(ROUNDS):
                self._progress(
                    f"checking {series.label}, {CHAINED} calls without a pause, round {turn + 1} of {ROUNDS}"
                )
                drawn = [self._draw(series, CHAINED * (turn + 1) + number + series.calls) for number in range(CHAINED)]
                right = [self._task.expected(arguments) for arguments in drawn]
                if not lent:
                    state = [item.position for item in self._task.mutated]
                    for arguments, expected in zip(drawn, right, strict=True):
                        lent.append(self._device.lend(arguments, expected.headers, state))
                    self._calls.attach(lent)
                else:
                    for given, arguments in zip(lent, drawn, strict=True):
                        given.refresh(arguments)
                    self._device.settle()
                checks = self._round(series, lent, right)
                if wrong := [check for check in checks if not check.passed]:
                    told = f"calls without a pause between them: {wrong[0].message}"
                    checks = [dataclasses.replace(check, message=told) for check in wrong[:1]]
                    return _failed(series, VerdictStatus.INCORRECT, checks, told)
        except CandidateFault as fault:
            failed = True
            if fault.violations:
                raise
            # What an exception says of a hidden input is not for the candidate's author to read.
            told = f"calls without a pause between them: {fault.message if series.vary is None else fault.brief}"
            return _failed(series, fault.status, [Check("*", "call", None, None, False, told)], told)
        finally:
            if lent:
                self._calls.detach(failed)
                for given in lent:
                    given.close()
        return dataclasses.replace(result, checks=worst_of([*result.checks, *checks]))

    def _round(self, series: Series, lent: list[Lent], right: list[Expected]) -> list[Check]:
        doing = f"{CHAINED} calls of run() on {series.label} without a pause"
        # No longer than the launcher waits for the next word: what comes before and behind is announced by itself.
        limit_s = min(CHAINED * self._limits.call_s, self._limits.longest_step_s)
        self._progress(f"checking {series.label}, {CHAINED} calls without a pause")
        with self._budget.spending(limit_s) as left_s:
            self._group.order_chain(CHAINED)
            self._group.answer(b"B", left_s, doing)
        checks: list[Check] = []
        for index, (item, expected) in enumerate(zip(lent, right, strict=True)):
            self._progress(f"checking {series.label}, what call {index + 1} of {CHAINED} without a pause left")
            checks += self._calls.given(index, item, expected, 1, self._limits.call_s)
        return [*overrun(self._ranks), *checks]


def _failed(series: Series, status: VerdictStatus, checks: list[Check], message: str) -> WorkloadResult:
    return WorkloadResult(series.label, status, tuple(checks), registered=False, message=f"{series.label}: {message}")
