"""A task put to the test, without a candidate: what an evaluator rests on must hold before anybody is judged by it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from d2k_agent.contract import Check, VerdictStatus, WorkloadResult
from d2k_agent.evaluator.checks.series import Series, planned
from d2k_agent.evaluator.devices import Device
from d2k_agent.evaluator.gates import compare
from d2k_agent.evaluator.task import LoadedTask, derive

Tensors = list[torch.Tensor]


def prove(task: LoadedTask, device: Device, seed: str, progress: Callable[[str], None]) -> list[WorkloadResult]:
    """What each series that a submission goes through first came to: `untimed` where the task holds.

    Checks: the reference gives the same twice and passes its own gates, two seeds give two draws, and outputs that
    nobody had to compute (zeros, ones, copies of inputs) fail. Raises TaskFault where the task's code fails.
    """
    return [_proved(task, device, series, seed, progress) for series in planned(task, device, late=False)]


def _proved(
    task: LoadedTask, device: Device, series: Series, seed: str, progress: Callable[[str], None]
) -> WorkloadResult:
    progress(f"proving {series.label}")
    arguments = _draw(task, device, series, derive(seed, series.label, 1))
    expected = task.expected(arguments)
    checks = [_repeats(expected, task.expected(arguments))]
    if series.vary is None:  # a variation may leave nothing to chance, as all zeros do
        checks.append(_varies(arguments, _draw(task, device, series, derive(seed, series.label, 2))))
    if checks[0].passed:
        checks += _own_gates(task, expected)
    checks += [_told_apart(task, name, fake, expected) for name, fake in _fakes(arguments, expected)]
    failed = [check.message for check in checks if not check.passed]
    status = VerdictStatus.INCORRECT if failed else VerdictStatus.UNTIMED
    message = f"{series.label}: {'; '.join(failed)}" if failed else ""
    return WorkloadResult(series.label, status, tuple(checks), registered=False, message=message)


def _draw(task: LoadedTask, device: Device, series: Series, seed: str) -> list[Any]:
    arguments = task.arguments(series.workload, seed, device.name)
    return arguments if series.vary is None else task.vary(series.vary, arguments, derive(seed, "vary"))


def _repeats(one: Sequence[torch.Tensor], other: Sequence[torch.Tensor]) -> Check:
    same = all(map(_equal, one, other))
    message = "" if same else "reference.py gives another result for the same inputs: make it deterministic"
    return Check("*", "deterministic", None, None, same, message)


def _varies(one: Sequence[Any], other: Sequence[Any]) -> Check:
    pairs = [(a, b) for a, b in zip(one, other, strict=True) if isinstance(a, torch.Tensor)]
    varies = not pairs or not all(_equal(a, b) for a, b in pairs)
    message = "" if varies else "two seeds give the same inputs: get_inputs must draw them from config['seed']"
    return Check("*", "draws", None, None, varies, message)


def _own_gates(task: LoadedTask, expected: Tensors) -> Iterator[Check]:
    """The reference against its own gates, of each output the first that fails."""
    for failed in (check for check in _compared(task, expected, expected) if not check.passed):
        told = f"the reference fails its own gate {failed.gate} of {failed.output}: {failed.message}"
        yield Check(failed.output, "reference", failed.value, failed.limit, False, told)


def _fakes(arguments: Sequence[Any], expected: Tensors) -> Iterator[tuple[str, Tensors]]:
    """Outputs that take no computation, by name."""
    yield "zeros", [torch.zeros_like(tensor) for tensor in expected]
    yield "ones", [torch.ones_like(tensor) for tensor in expected]
    for position, value in enumerate(arguments):
        if isinstance(value, torch.Tensor) and all(value.shape == tensor.shape for tensor in expected):
            yield f"copies of argument {position}", [value.to(tensor.dtype) for tensor in expected]


def _told_apart(task: LoadedTask, name: str, fake: Tensors, expected: Tensors) -> Check:
    """A failed check where the gates accept a fake that is not the right answer."""
    right = all(map(_equal, fake, expected))
    accepted = all(check.passed for check in _compared(task, fake, expected))
    if right or not accepted:
        return Check("*", name, None, None, True)
    return Check("*", name, None, None, False, f"{name} pass every gate: tighten the gates in hidden/workloads.json")


def _compared(task: LoadedTask, outputs: Tensors, expected: Tensors) -> Iterator[Check]:
    for name, output, wanted in zip(task.output_names, outputs, expected, strict=True):
        yield from compare(name, output, wanted, [gate for gate in task.gates if gate.get("output", name) == name])


def _equal(one: torch.Tensor, other: torch.Tensor) -> bool:
    """The same values, NaN being like NaN."""
    return one.shape == other.shape and bool(((one == other) | ((one != one) & (other != other))).all())
