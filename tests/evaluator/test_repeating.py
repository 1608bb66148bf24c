"""A call made again on the same inputs: which differences are legal noise, and which are another answer."""

from __future__ import annotations

import json
import mmap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

torch = pytest.importorskip("torch")

from d2k_agent.contract import Check, TaskBundle  # noqa: E402 - torch may be missing
from d2k_agent.evaluator import layout  # noqa: E402
from d2k_agent.evaluator.attached import AttachedSet  # noqa: E402
from d2k_agent.evaluator.checks.repeating import REPEAT, left_by_call, repeat_checks, repeats_of  # noqa: E402
from d2k_agent.evaluator.checks.series import planned  # noqa: E402
from d2k_agent.evaluator.devices import CpuDevice, Lent  # noqa: E402
from d2k_agent.evaluator.task import Expected, LoadedTask  # noqa: E402
from tests.evaluator import counting, scaling  # noqa: E402
from tests.evaluator.timed_cpu import TimedCpu  # noqa: E402

SELECTING = TaskBundle(
    "selecting",
    {
        "config.json": json.dumps({"workloads": [{"label": "large"}]}),
        "get_inputs.py": "import torch\n\n\ndef get_inputs(config):\n"
        "    return [torch.tensor([[5.0, 4.9999, 1.0, 0.0]], device=config['device'])]\n",
        "reference.py": "def run(x):\n    return x.topk(2).indices\n",
    },
    {
        "workloads.json": json.dumps(
            {
                "smoke": [{"label": "smoke"}],
                "outputs": ["ids"],
                "gates": [{"output": "ids", "gate": "set", "margin": 1e-3, "scores": "scores"}],
            }
        ),
        "check.py": "def scores(inputs):\n    return [inputs[0].double()]\n",
        "rules.toml": "",
    },
)
Call = Callable[[Expected], Expected]
"""From what the reference gives to what a call gives."""


@contextmanager
def lending(task: LoadedTask) -> Iterator[tuple[Lent, Expected]]:
    arguments = task.arguments(task.smoke[0], "5e" * 32)
    expected = task.expected(arguments)
    lent = CpuDevice().lend(arguments, expected.headers, [item.position for item in task.mutated])
    yield lent, expected
    lent.close()


def made(task: LoadedTask, lent: Lent, gives: Expected) -> None:
    """One call, as a candidate makes it: it answers, and changes what it is lent."""
    shared, descriptors = lent.share()
    inputs, answers = (torch.frombuffer(mmap.mmap(number, 0), dtype=torch.uint8) for number in descriptors)
    given = AttachedSet(layout.attach_arguments(inputs, shared["arguments"]), inputs, answers)
    for item, left in zip(task.mutated, gives.state, strict=True):
        given.arguments[item.position].copy_(left)
    given.answer(gives.outputs)


def repeated(bundle: TaskBundle, first: Call, second: Call) -> list[Check]:
    """The checks of the second call, both being right by the task's gates."""
    task = LoadedTask(bundle)
    with lending(task) as (lent, expected):
        own = []
        for number, call in enumerate((first, second)):
            if number:
                earlier = left_by_call(lent, expected)
                lent.refresh(lent.arguments)
            made(task, lent, call(expected))
            now = left_by_call(lent, expected)
            own = task.compare(lent.arguments, now.outputs, now.state, expected)
            assert own and all(check.passed for check in own)
        return repeat_checks(task, lent, expected, earlier, own)


def scaled_by(factor: float) -> Call:
    return lambda expected: Expected([output * factor for output in expected.outputs], expected.state)


def latest_off_by(difference: float) -> Call:
    """Of the counting task: what a call writes is off, what it counts is right."""
    return lambda expected: Expected(expected.outputs, [expected.state[0], expected.state[1] + difference])


def choosing(*ids: int) -> Call:
    return lambda expected: Expected([torch.tensor([ids])], expected.state)


@pytest.mark.parametrize(
    ("bundle", "first", "second"),
    [
        (scaling.task(), scaled_by(1.0), scaled_by(1.0)),
        (scaling.task(), scaled_by(1.0 + 3e-7), scaled_by(1.0 - 3e-7)),
        (counting.task(), latest_off_by(0.0), latest_off_by(0.0)),
        (counting.task(), latest_off_by(4e-7), latest_off_by(-4e-7)),
        (SELECTING, choosing(0, 1), choosing(1, 0)),
    ],
)
def test_noise_within_the_gates_is_legal_and_state_may_grow(bundle: TaskBundle, first: Call, second: Call) -> None:
    checks = repeated(bundle, first, second)
    assert all(check.passed for check in checks)
    assert [check.gate for check in checks].count(REPEAT) == 1


@pytest.mark.parametrize(
    ("bundle", "first", "second", "output", "told"),
    [
        (scaling.task(), scaled_by(1.0 + 8e-7), scaled_by(1.0 - 8e-7), "y", "relative norm"),
        (counting.task(), latest_off_by(8e-7), latest_off_by(-8e-7), "latest", "700 of 700 elements"),
    ],
)
def test_two_right_answers_that_are_too_far_apart_are_another_answer(
    bundle: TaskBundle, first: Call, second: Call, output: str, told: str
) -> None:
    (failed,) = [check for check in repeated(bundle, first, second) if not check.passed]
    assert (failed.output, failed.gate) == (output, REPEAT)
    assert failed.message.startswith("the same inputs gave other outputs: with those of the call before")
    assert told in failed.message


def test_a_wrong_answer_after_a_right_one_is_one_too_and_a_changed_argument_is_none() -> None:
    task = LoadedTask(scaling.task())
    wrong = Check("y", "rel_norm", 0.5, 1e-6, False, "relative norm 0.5 is above 1e-06")
    changed = Check("*", "mutation", None, None, False, "run() changed its argument 0, which it may only read")
    with lending(task) as (lent, expected):
        found = repeat_checks(task, lent, expected, expected, [Check("*", "memory", 1.0, 2.0, True), changed, wrong])
    assert found[0] == changed
    assert (found[1].gate, found[1].message) == (REPEAT, f"the same inputs gave other outputs: {wrong.message}")


def test_a_function_of_the_task_that_only_the_reference_suits_accuses_nobody() -> None:
    hidden = json.loads(SELECTING.hidden["workloads.json"])
    hidden["gates"][0]["rows"] = "rows"
    exacting = (
        "\n\ndef rows(inputs, expected):\n"
        "    assert expected['ids'][0, 0] == 0\n    return expected['ids'][:, 0] >= 0\n"
    )
    files = {"workloads.json": json.dumps(hidden), "check.py": SELECTING.hidden["check.py"] + exacting}
    checks = repeated(replace(SELECTING, hidden={**SELECTING.hidden, **files}), choosing(1, 0), choosing(1, 0))
    assert [check.gate for check in checks] == ["set.rows"] and checks[0].passed


def test_the_first_smoke_series_alone_is_repeated_and_more_often_where_races_show() -> None:
    task = LoadedTask(scaling.task())
    assert [series.repeats for series in planned(task, CpuDevice(), late=False)] == [1, 0]
    assert repeats_of(TimedCpu(), calls=12) > 8
    assert repeats_of(TimedCpu(), calls=1) == 0
