"""Correctness of a series of calls: new inputs at the same addresses before each, every output compared.

A candidate that answers from a cache, only the first calls honestly, or from memory it never wrote, fails here.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from d2k_agent.contract import Check, Limits, VerdictStatus, Violation, WorkloadResult
from d2k_agent.evaluator import layout
from d2k_agent.evaluator.devices import Device, LentInputs
from d2k_agent.evaluator.faults import CandidateFault
from d2k_agent.evaluator.gates import compare
from d2k_agent.evaluator.process import CandidateProcess
from d2k_agent.evaluator.task import LoadedTask, derive


@dataclass(frozen=True)
class Series:
    """`calls` calls of run() on fresh draws of one workload, or of one hidden variation of it."""

    label: str
    workload: dict[str, Any]
    calls: int
    vary: str | None = None
    late: bool = False


def planned(task: LoadedTask, device: Device, late: bool) -> list[Series]:
    """The series of a task on a device: smoke workloads (the first many times), then hidden variations.

    `late` selects the expensive variations, which run last and once per source.
    """
    series = []
    if not late:
        for index, workload in enumerate(task.smoke):
            series.append(Series(workload["label"], workload, task.repeat_calls if index == 0 else 2))
    for variation in task.variations:
        if bool(variation.get("late")) == late and device.name in variation.get("devices", ["cpu", "cuda"]):
            workload = variation["workload"]
            series.append(Series(variation["name"], workload, 1 if late else 2, variation["vary"], late))
    return series


class SeriesRunner:
    """Runs series in one candidate process and says what each came to."""

    def __init__(
        self,
        task: LoadedTask,
        device: Device,
        process: CandidateProcess,
        seed: str,
        limits: Limits,
        progress: Callable[[str], None],
    ) -> None:
        self._task, self._device, self._process = task, device, process
        self._seed, self._limits, self._progress = seed, limits, progress
        self._deadline = time.monotonic() + limits.job_s
        self.peak_memory_bytes: int | None = None

    def run(self, series: Series) -> WorkloadResult:
        """One series to its end or to its first failure. Raises CandidateFault where a rule was broken."""
        lent: LentInputs | None = None
        worst: dict[tuple[str, str], Check] = {}
        try:
            for call in range(series.calls):
                self._progress(f"checking {series.label}, call {call + 1} of {series.calls}")
                arguments = self._draw(series, call)
                expected = self._task.expected(arguments)
                if lent is None:
                    lent = self._device.lend(arguments, [layout.header_of(tensor) for tensor in expected])
                    self._attach(lent)
                else:
                    lent.refresh(arguments)
                checks = self._call(series, lent, arguments, expected, call)
                for check in checks:
                    _keep_worst(worst, check)
                if not all(check.passed for check in checks):
                    return _result(series, VerdictStatus.INCORRECT, worst, call)
        except CandidateFault as fault:
            if fault.violations:
                raise
            # What an exception says of a hidden input is not for the candidate's author to read.
            message = fault.message if series.vary is None else fault.brief
            checks = [Check("*", "call", None, None, False, message)]
            return WorkloadResult(series.label, fault.status, tuple(checks), registered=False, message=message)
        finally:
            if lent is not None:
                lent.close()
        return _result(series, VerdictStatus.UNTIMED, worst, series.calls - 1)

    def _draw(self, series: Series, call: int) -> list[Any]:
        arguments = self._task.arguments(series.workload, derive(self._seed, series.label, "draw", call))
        if series.vary is None:
            return arguments
        return self._task.vary(series.vary, arguments, derive(self._seed, series.label, "vary", call))

    def _attach(self, lent: LentInputs) -> None:
        self._process.order({"do": "attach", "arguments": lent.describe()}, lent.descriptors())
        self._process.answer(b"A", self._limits.import_s, "attaching inputs")

    def _call(
        self, series: Series, lent: LentInputs, arguments: list[Any], expected: list[torch.Tensor], call: int
    ) -> list[Check]:
        self._process.order({"do": "call"})
        limit_s = self._limits.late_call_s if series.late else self._limits.call_s
        limit_s = min(limit_s, max(0.0, self._deadline - time.monotonic()))
        payload = self._process.answer(b"D", limit_s, f"run() on {series.label}")
        try:
            answer = layout.unpack_answer(payload)
        except ValueError as problem:
            raise CandidateFault(VerdictStatus.ENDED_EARLY, f"run() answered out of protocol: {problem}") from None
        if answer.foreign:
            raise _foreign(answer.foreign)
        self.peak_memory_bytes = max(self.peak_memory_bytes or 0, answer.peak_bytes)
        checks = [
            Check("*", "mutation", None, None, False, f"run() changed its argument {position}, which it may only read")
            for position in lent.changed()
            if position not in self._task.mutated
        ]
        checks += [self._memory(series, answer.peak_bytes), self._copies(series, answer.copied_bytes)]
        if len(answer.outputs) != len(expected):
            message = f"run() returned {len(answer.outputs)} tensors, {len(expected)} are expected"
            return [*checks, Check("*", "outputs", float(len(answer.outputs)), float(len(expected)), False, message)]
        for name, header, wanted in zip(self._task.output_names, answer.outputs, expected, strict=True):
            if header != layout.header_of(wanted):
                message = f"the output is {header}, expected is {layout.header_of(wanted)}"
                return [*checks, Check(name, "shape", None, None, False, message)]
        outputs = lent.read(answer.outputs)
        for name, output, wanted in zip(self._task.output_names, outputs, expected, strict=True):
            gates = [gate for gate in self._task.gates if gate.get("output", name) == name]
            checks += compare(name, output, wanted, gates)
        return [_after(check, call) for check in checks]

    def _memory(self, series: Series, peak_bytes: int) -> Check:
        cap = self._task.memory_cap_bytes(series.workload)
        passed = cap is None or peak_bytes <= cap
        message = "" if passed else f"{peak_bytes} bytes of tensors were alive at once, the task allows {cap}"
        return Check("*", "memory", float(peak_bytes), None if cap is None else float(cap), passed, message)

    def _copies(self, series: Series, copied_bytes: int) -> Check:
        budget = self._task.copy_budget_bytes(series.workload)
        passed = budget is None or copied_bytes <= budget
        message = "" if passed else f"PyTorch copied {copied_bytes} bytes in one call, the task allows {budget} as glue"
        return Check("*", "copies", float(copied_bytes), None if budget is None else float(budget), passed, message)


def _foreign(operator: str) -> CandidateFault:
    message = (
        f"run() computed with PyTorch ({operator}): PyTorch may allocate, reshape and copy within one dtype; "
        "arithmetic and casts belong into Triton kernels"
    )
    return CandidateFault(VerdictStatus.RULE_VIOLATION, message, (Violation("runtime.operators", message),))


def _after(check: Check, call: int) -> Check:
    """A failed check of a later call says so: being right only at first is its own kind of wrong."""
    if check.passed or call == 0:
        return check
    message = f"call {call + 1} of one process: {check.message}; earlier calls were right"
    return Check(check.output, check.gate, check.value, check.limit, False, message)


def _keep_worst(worst: dict[tuple[str, str], Check], check: Check) -> None:
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
    norms = [check.value for check in checks if check.gate == "rel_norm" and check.value is not None]
    return WorkloadResult(
        series.label,
        status,
        checks,
        registered=False,
        rel_norm=max(norms) if norms else None,
        message=f"{series.label}: {failed[0].message or failed[0].gate}" if failed else f"{call + 1} calls",
    )
