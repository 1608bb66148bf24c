"""A task that could not tell right from wrong is refused before anybody is judged by it."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterator
from typing import Any

import pytest

from d2k_agent.contract import JobKind, TaskBundle, Verdict, VerdictStatus
from d2k_agent.errors import UsageError
from d2k_agent.launchers import ProcessLauncher
from tests.evaluator.scaling import job, task


@pytest.fixture(scope="module")
def launcher() -> Iterator[ProcessLauncher]:
    launcher = ProcessLauncher({"PATH": os.environ["PATH"], "HOME": "/tmp"})
    yield launcher
    launcher.close()


def with_gates(bundle: TaskBundle, *gates: dict[str, Any]) -> TaskBundle:
    hidden = json.loads(bundle.hidden["workloads.json"]) | {"gates": list(gates)}
    return dataclasses.replace(bundle, hidden={**bundle.hidden, "workloads.json": json.dumps(hidden)})


def prove(launcher: ProcessLauncher, bundle: TaskBundle) -> Verdict:
    return launcher.launch(job("", task=bundle, kind=JobKind.PROVE, device="cpu"))


def test_a_sound_task_holds_and_zeros_may_be_the_right_answer_to_zeros(launcher: ProcessLauncher) -> None:
    verdict = prove(launcher, task())
    assert verdict.status is VerdictStatus.UNTIMED, verdict.message
    smoke, zeros, gates = verdict.workloads
    assert {check.gate for check in smoke.checks} >= {"deterministic", "draws", "zeros", "ones", "copies of argument 0"}
    assert (zeros.label, gates.label) == ("hidden.zeros", "gates")


SOFTMAX = "import torch\n\n\ndef run(x, factor):\n    return torch.softmax(x, 0)\n"
LOOSE = {"output": "y", "gate": "allclose_share", "atol": 0.006, "rtol": 0.02, "limit": 0.95}


@pytest.mark.parametrize(
    ("bundle", "words"),
    [
        (with_gates(task(reference_py=SOFTMAX), LOOSE), "smoke_n1000: zeros pass every gate"),
        (with_gates(task(), {"output": "y", "gate": "rel_norm", "limit": 0.9}), "copies of argument 0 pass every gate"),
        (
            task(reference_py="import torch\n\n\ndef run(x, factor):\n    return x * factor + torch.rand_like(x)\n"),
            "reference.py gives another result for the same inputs",
        ),
        (
            task(
                get_inputs_py="import torch\n\n\ndef get_inputs(config):\n    return [torch.ones(config['n']), 3.0]\n"
            ),
            "two seeds give the same inputs",
        ),
        (
            task(reference_py="import torch\n\n\ndef run(x, factor):\n    return x / 0\n"),
            "the reference fails its own gate",
        ),
    ],
)
def test_what_a_task_cannot_tell_apart_is_said(launcher: ProcessLauncher, bundle: TaskBundle, words: str) -> None:
    verdict = prove(launcher, bundle)
    assert verdict.status is VerdictStatus.INCORRECT
    assert words in verdict.message


def test_code_of_a_task_that_fails_is_named(launcher: ProcessLauncher) -> None:
    with pytest.raises(UsageError, match=r"reference.py raised KeyError"):
        prove(launcher, task(reference_py="def run(x, factor):\n    raise KeyError('x')\n"))
