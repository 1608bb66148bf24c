"""Calls and series of several ranks: what is checked beyond what any task is checked for."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from typing import Any

from d2k_agent.contract import Check, Limits, VerdictStatus, WorkloadResult
from d2k_agent.evaluator.checks.calls import Calls
from d2k_agent.evaluator.checks.series import Budget, Series, SeriesRunner, worst_of
from d2k_agent.evaluator.devices import Device, Lent
from d2k_agent.evaluator.faults import CandidateFault
from d2k_agent.evaluator.process import CandidateProcess
from d2k_agent.evaluator.ranks.device import CHAINED, RankedDevice
from d2k_agent.evaluator.ranks.group import RankGroup
from d2k_agent.evaluator.task import Expected, LoadedTask

ROUNDS = 2
WATCHDOG_S = 20.0
"""The longest call where kernels are compiled and run on a GPU: ranks that all wait for each other wait for ever."""


class RankedCalls(Calls):
    """Calls of which it is also checked that no rank wrote behind a workspace."""

    def __init__(
        self, task: LoadedTask, device: RankedDevice, process: CandidateProcess, limits: Limits, trusted: bool = False
    ) -> None:
        super().__init__(task, device, process, limits, trusted)
        self._ranks = device

    def warm_up(self, label: str, lent: Lent) -> None:
        """As for any task; what that call left in the workspaces is of no use to the next."""
        super().warm_up(label, lent)
        if self._ranks.times and self._ranks.memory is not None:
            self._ranks.memory.poison()
            self._ranks.settle()

    def checked(
        self, label: str, workload: dict[str, Any], lent: Lent, expected: Expected, limit_s: float, index: int = 0
    ) -> list[Check]:
        """One call on all ranks."""
        bound_s = min(limit_s, WATCHDOG_S) if self._ranks.times else limit_s
        checks = super().checked(label, workload, lent, expected, bound_s, index)
        overrun = self._ranks.memory.overrun() if self._ranks.memory else []
        if not overrun:
            return checks
        message = f"bytes behind the workspace of rank {overrun[0]} were written: it is larger than workspace_bytes"
        return [Check("*", "workspace", None, None, False, message), *checks]


class RankedSeries(SeriesRunner):
    """Series on several ranks. After the first one calls follow each other without a pause, some ranks held up."""

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
        super().__init__(task, device, process, seed, limits, budget, progress, trusted)
        assert isinstance(device, RankedDevice)
        self._calls = RankedCalls(task, device, process, limits, trusted)

    def run(self, series: Series) -> WorkloadResult:
        """One series, and the chain where it is the first of them."""
        result = super().run(series)
        chained = series.workload["label"] == self._task.smoke[0]["label"]
        return self._chain(series, result) if chained and result.status.acceptable else result

    def _chain(self, series: Series, result: WorkloadResult) -> WorkloadResult:
        """CHAINED calls over as many sets, ROUNDS times; what each left is compared."""
        assert isinstance(self._process, RankGroup)
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
            told = f"calls without a pause between them: {fault.message}"
            return _failed(series, fault.status, [Check("*", "call", None, None, False, told)], told)
        finally:
            if lent:
                self._calls.detach(failed)
                for given in lent:
                    given.close()
        return dataclasses.replace(result, checks=worst_of([*result.checks, *checks]))

    def _round(self, series: Series, lent: list[Lent], right: list[Expected]) -> list[Check]:
        assert isinstance(self._process, RankGroup)
        doing = f"{CHAINED} calls of run() on {series.label} without a pause"
        began = time.monotonic()
        with self._budget.spending(self._limits.call_s) as left_s:
            self._process.order_chain(CHAINED)
            self._process.answer(b"B", left_s, doing)
        left_s = max(1.0, self._limits.call_s - (time.monotonic() - began))
        given = zip(range(CHAINED), lent, right, strict=True)
        return [
            check for index, item, expected in given for check in self._calls.given(index, item, expected, 1, left_s)
        ]


def _failed(series: Series, status: VerdictStatus, checks: list[Check], message: str) -> WorkloadResult:
    return WorkloadResult(series.label, status, tuple(checks), registered=False, message=f"{series.label}: {message}")
