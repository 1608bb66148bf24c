"""A task put to the test, without a candidate: what an evaluator rests on must hold before anybody is judged by it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from d2k_agent.contract import Check, VerdictStatus, WorkloadResult
from d2k_agent.evaluator.checks.series import Series, planned
from d2k_agent.evaluator.devices import Device
from d2k_agent.evaluator.faults import TaskFault
from d2k_agent.evaluator.gates import label_of
from d2k_agent.evaluator.gates.base import same
from d2k_agent.evaluator.task import Expected, LoadedTask, derive

CHAINED = 3
"""Calls on one state that show what each of them does to it."""


def prove(task: LoadedTask, device: Device, seed: str, progress: Callable[[str], None]) -> list[WorkloadResult]:
    """What each series that a submission goes through first came to: `untimed` where the task holds.

    Checks: the reference gives the same twice, changes what it declares alone (over several calls as its effect says)
    and passes its own gates, two seeds give two draws of each input, a variation spares what it is given, and outputs
    that nobody had to compute (zeros, ones, copies of inputs) fail, each one beside right others as well; so does state
    that was left alone, overwritten or added to twice. Every gate finds rows that it is for. Raises TaskFault where the
    task's code fails.
    """
    results = [_proved(task, device, series, seed, progress) for series in planned(task, device, late=False)]
    return [*results, _all_used(task, results)]


def holds(task: LoadedTask, device: Device, seed: str) -> None:
    """The part of a proof that takes no time, before candidates are judged by a task: the first smoke workload.

    Raises TaskFault where the reference does not repeat itself or zeros pass every gate, besides what prove() raises.
    """
    series = planned(task, device, late=False)[0]
    arguments = _draw(task, device, series, derive(seed, "holds"))
    expected = task.expected(arguments)
    zeros = dict(_fakes(task, arguments, expected))["zeros"]
    checks = [_repeats(expected, task.expected(arguments)), _told_apart(task, "zeros", zeros, arguments, expected)]
    if failed := [check.message for check in checks if not check.passed]:
        told = "; ".join(failed)
        raise TaskFault(f"task {task.slug}: on {series.label} {told}; d2k-agent tasks check proves all of a task")


def _proved(
    task: LoadedTask, device: Device, series: Series, seed: str, progress: Callable[[str], None]
) -> WorkloadResult:
    progress(f"proving {series.label}")
    arguments = _draw(task, device, series, derive(seed, series.label, 1))
    expected = task.expected(arguments)
    checks = [_repeats(expected, task.expected(arguments)), _spares(task, arguments)]
    if series.vary is None:
        checks.append(_varies(arguments, _draw(task, device, series, derive(seed, series.label, 2))))
    else:  # it may leave nothing to chance, as all zeros do
        checks.append(_varied_apart(task, device, series, derive(seed, series.label, 1)))
    if checks[0].passed:
        checks += _own_gates(task, arguments, expected)
        checks += [_chains(task, arguments, expected)] * bool(task.mutated)
    checks += [_told_apart(task, name, fake, arguments, expected) for name, fake in _fakes(task, arguments, expected)]
    failed = [check.message for check in checks if not check.passed]
    status = VerdictStatus.INCORRECT if failed else VerdictStatus.UNTIMED
    message = f"{series.label}: {'; '.join(failed)}" if failed else ""
    return WorkloadResult(series.label, status, tuple(checks), registered=False, message=message)


def _draw(task: LoadedTask, device: Device, series: Series, seed: str) -> list[Any]:
    arguments = task.arguments(series.workload, seed, device.name)
    return arguments if series.vary is None else task.vary(series.vary, arguments, derive(seed, "vary"))


def _repeats(one: Expected, other: Expected) -> Check:
    same = _alike(one, other)
    message = "" if same else "reference.py gives another result for the same inputs: make it deterministic"
    return Check("*", "deterministic", None, None, same, message)


def _spares(task: LoadedTask, arguments: Sequence[Any]) -> Check:
    given = _copies(arguments)
    task.reference(given)
    declared = {item.position for item in task.mutated}
    changed = [position for position in _differing(given, arguments) if position not in declared]
    told = (
        f"reference.py changes its argument {changed[0]}: declare it in mutated_inputs, or copy it" if changed else ""
    )
    return Check("*", "mutation", None, None, not changed, told)


def _varies(one: Sequence[Any], other: Sequence[Any]) -> Check:
    """Each tensor differs by seed; one number may be the workload's."""
    differing = _differing(one, other)
    several = [position for position, value in enumerate(one) if isinstance(value, torch.Tensor) and value.numel() > 1]
    alike = [position for position in several if position not in differing]
    told = f"two seeds give the same argument {alike[0]}: get_inputs must draw it from config['seed']" if alike else ""
    return Check("*", "draws", None, None, not alike, told)


def _varied_apart(task: LoadedTask, device: Device, series: Series, seed: str) -> Check:
    """A variation returns other tensors, or those that it was given as they were."""
    assert series.vary is not None
    given = task.arguments(series.workload, seed, device.name)
    before = _copies(given)
    task.vary(series.vary, given, derive(seed, "vary"))
    changed = _differing(given, before)
    told = (
        f"{series.vary} of hidden/check.py changes the argument {changed[0]} that it is given: copy it"
        if changed
        else ""
    )
    return Check("*", "varied", None, None, not changed, told)


def _own_gates(task: LoadedTask, arguments: Sequence[Any], expected: Expected) -> Iterator[Check]:
    """The gates on the reference itself; a failed one says so."""
    for check in _compared(task, arguments, expected, expected):
        told = f"the reference fails its own gate {check.gate} of {check.output}: {check.message}"
        yield Check(check.output, check.gate, check.value, check.limit, check.passed, "" if check.passed else told)


def _chains(task: LoadedTask, arguments: Sequence[Any], expected: Expected) -> Check:
    """Several calls on one state: each gives what the first gave, and leaves what its effect says (Mutated.after)."""
    given = _copies(arguments)
    for _ in range(CHAINED):
        outputs = task.reference(given)
    state = [given[item.position] for item in task.mutated]
    told = ""
    if not all(_equal(one, other) for one, other in zip(outputs, expected.outputs, strict=True)):
        told = f"call {CHAINED} of reference.py on one state gives other outputs: they must not depend on what it holds"
    for item, now, once in zip(task.mutated, state, expected.state, strict=True):
        after = item.after(arguments[item.position], once, CHAINED)
        if not told and not _near(now, after):
            told = (
                f"{CHAINED} calls of reference.py do not leave {item.name} as its effect {item.effect!r} says: what a "
                "call adds or writes must follow from the other arguments alone"
            )
    for check in _compared(task, arguments, Expected(outputs, state), expected, CHAINED):
        if not told and not check.passed:
            told = f"{CHAINED} calls of reference.py fail its own gate {check.gate} of {check.output}: {check.message}"
    return Check("*", "chained", None, None, not told, told)


def _near(now: torch.Tensor, after: torch.Tensor) -> bool:
    """The same, but for what sums of floats lose to rounding: 16 units in the last place of the largest value."""
    if not now.is_floating_point():
        return _equal(now, after)
    one, other = now.double(), after.double()
    kept = one.isfinite() & other.isfinite()
    largest = max((float(tensor[kept].abs().amax()) for tensor in (one, other) if bool(kept.any())), default=0.0)
    room = 16 * torch.finfo(now.dtype).eps * largest
    return bool((same(one, other) | (kept & ((one - other).abs() <= room))).all())


def _fakes(task: LoadedTask, arguments: Sequence[Any], expected: Expected) -> Iterator[tuple[str, Expected]]:
    """Answers that take no computation, or less than all of it, by name."""
    state = [arguments[item.position] for item in task.mutated]
    for name, make in (("zeros", torch.zeros_like), ("ones", torch.ones_like)):
        yield name, Expected([make(tensor) for tensor in expected.outputs], state)
    for position, value in enumerate(arguments):
        if isinstance(value, torch.Tensor) and all(value.shape == tensor.shape for tensor in expected.outputs):
            copies = [value.to(tensor.dtype) for tensor in expected.outputs]
            yield f"copies of argument {position}", Expected(copies, state)
    if len(expected.outputs) + len(expected.state) > 1:
        specified = task.specified(arguments, expected)
        for index, (name, right) in enumerate(zip(task.output_names, expected.outputs, strict=True)):
            fakes = {"zeros": torch.zeros_like(right), "ones": torch.ones_like(right)}
            for position, value in enumerate(arguments):
                if isinstance(value, torch.Tensor) and value.shape == right.shape:
                    fakes[f"copies of argument {position}"] = value.to(right.dtype)
            for kind, fake in fakes.items() if specified[index] else ():
                outputs = [*expected.outputs[:index], fake, *expected.outputs[index + 1 :]]
                yield f"{kind} as {name} beside right outputs", Expected(outputs, expected.state)
    for index, item in enumerate(task.mutated):
        before, once = state[index], expected.state[index]
        wrong = {f"{item.name} left as it was": before}
        if item.effect == "adds":
            wrong[f"{item.name} overwritten"] = once - before
            wrong[f"{item.name} added to twice"] = once + (once - before)
        for name, value in wrong.items():
            yield name, Expected(expected.outputs, [*expected.state[:index], value, *expected.state[index + 1 :]])


def _told_apart(task: LoadedTask, name: str, fake: Expected, arguments: Sequence[Any], expected: Expected) -> Check:
    """A failed check where the gates accept a fake that is not the right answer."""
    if _alike(fake, expected) or not all(check.passed for check in _compared(task, arguments, fake, expected)):
        return Check("*", name, None, None, True)
    return Check("*", name, None, None, False, f"{name} pass every gate: tighten the gates in hidden/workloads.json")


def _compared(
    task: LoadedTask, arguments: Sequence[Any], answer: Expected, expected: Expected, calls: int = 1
) -> list[Check]:
    return task.compare(arguments, answer.outputs, answer.state, expected, calls)


def _all_used(task: LoadedTask, results: Sequence[WorkloadResult]) -> WorkloadResult:
    """Every gate decided somewhere: one whose rows are always none checks nothing."""
    used = {check.gate for result in results for check in result.checks}
    unused = [label_of(gate) for gate in task.gates if label_of(gate) not in used]
    told = f"gate {unused[0]} finds no rows in any smoke workload or variation: add one where it does" if unused else ""
    if unused and not all(result.status.acceptable for result in results):
        unused, told = [], ""  # a failed gate keeps later ones from being asked
    status = VerdictStatus.INCORRECT if unused else VerdictStatus.UNTIMED
    return WorkloadResult("gates", status, (Check("*", "used", None, None, not unused, told),), False, message=told)


def _alike(one: Expected, other: Expected) -> bool:
    pairs = zip([*one.outputs, *one.state], [*other.outputs, *other.state], strict=True)
    return all(_equal(a, b) for a, b in pairs)


def _copies(arguments: Sequence[Any]) -> list[Any]:
    return [value.clone() if isinstance(value, torch.Tensor) else value for value in arguments]


def _differing(one: Sequence[Any], other: Sequence[Any]) -> list[int]:
    """Positions of tensors that are not the same in both."""
    pairs = enumerate(zip(one, other, strict=True))
    return [position for position, (a, b) in pairs if isinstance(a, torch.Tensor) and not _equal(a, b)]


def _equal(one: torch.Tensor, other: torch.Tensor) -> bool:
    """The same values in the same shape, NaN being like NaN."""
    return one.shape == other.shape and bool(same(one, other).all())
