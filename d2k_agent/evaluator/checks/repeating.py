"""A call made again with the inputs of the one before it: a candidate has to give the same, up to legal noise.

Both calls are compared with the reference, and the second with the first under the task's own gates, the first in the
reference's place. So what the gates allow is legal: the rounding noise of atomics, near scores that change places, a
counter that both calls were right to raise. State is as it was before the first call.

Found are a candidate whose outputs depend on which call it is, both kinds being within the gates of the reference and
yet too far from each other, and a race, as often as it shows: one that is right nine times of ten passes `calls` calls
with a probability of 0.9 ** calls, so that each repeat of a short call is a draw more. Not found are differences within
the gates, a race that the smoke shapes do not show, and on a CPU any race between programs of one launch, since the
interpreter runs them in order. It is no defence against a candidate that recognises the inputs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from d2k_agent.contract import Check
from d2k_agent.evaluator.devices import Device, Lent
from d2k_agent.evaluator.faults import TaskFault
from d2k_agent.evaluator.task import Expected, LoadedTask

REPEAT = "repeat"
"""The gate of these checks."""
_REPEATS_ON_A_GPU = 16
_OTHER = "the same inputs gave other outputs"


def repeats_of(device: Device, calls: int) -> int:
    """How often the last call of a series of so many is repeated; a series of one call is an expensive one."""
    if calls < 2:
        return 0
    return _REPEATS_ON_A_GPU if device.times else 1


def left_by_call(lent: Lent, expected: Expected) -> Expected:
    """What a call that was right left: its outputs and state. Stands in the reference's place for the next."""
    return Expected(lent.read(expected.headers), lent.state())


def repeat_checks(
    task: LoadedTask, lent: Lent, expected: Expected, earlier: Expected, checks: Sequence[Check]
) -> list[Check]:
    """The checks of a repeated call, where `earlier` is what the call before left and `checks` are this one's own.

    One named REPEAT is among them, which says in words in which gate the outputs differ; none where a function of
    check.py fails on outputs that are nearly the reference's.
    """
    failed = [check for check in checks if not check.passed]
    if failed:
        # The outputs were right before; what is no output (memory, a changed argument) speaks for itself.
        return [_differs(check, f"{_OTHER}: {check.message}") if check.output != "*" else check for check in failed]
    now = left_by_call(lent, expected)
    try:
        compared = task.compare(lent.arguments, now.outputs, now.state, earlier)
    except TaskFault:  # with the reference it did not fail: what a candidate gave must not look like a broken task
        return list(checks)
    differing = [check for check in compared if not check.passed]
    if not differing:
        return [*checks, Check("*", REPEAT, None, None, True)]
    told = f"{_OTHER}: with those of the call before as the reference,"
    return [_differs(check, f"{told} {check.message}") for check in differing]


def _differs(check: Check, message: str) -> Check:
    return dataclasses.replace(check, gate=REPEAT, message=message)
