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
from d2k_agent.evaluator.checks.proving import prove as prove_here
from d2k_agent.evaluator.devices.cpu import CpuDevice
from d2k_agent.evaluator.task import LoadedTask
from d2k_agent.launchers import ProcessLauncher
from tests.evaluator.scaling import job, task


@pytest.fixture(scope="module")
def launcher() -> Iterator[ProcessLauncher]:
    launcher = ProcessLauncher({"PATH": os.environ["PATH"], "HOME": "/tmp"})
    yield launcher
    launcher.close()


def with_check(bundle: TaskBundle, old: str, new: str) -> TaskBundle:
    text = bundle.hidden["check.py"]
    assert text.count(old) == 1
    return dataclasses.replace(bundle, hidden={**bundle.hidden, "check.py": text.replace(old, new)})


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
            "two seeds give the same argument 0: get_inputs must draw it from config['seed']",
        ),
        (
            task(reference_py="import torch\n\n\ndef run(x, factor):\n    return torch.full_like(x, torch.inf)\n"),
            "the reference fails its own gate",
        ),
        (
            with_check(task(), "torch.zeros_like(inputs[0])", "inputs[0].zero_()"),
            "zeros of hidden/check.py changes the argument 0 that it is given: copy it",
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


STATE = [{"output": "y", "gate": "rel_norm", "limit": 0.01}, {"output": "s", "gate": "rel_norm", "limit": 0.5}]


def stateful(body: str, effect: str, outputs: list[str] | None = None, *gates: dict[str, Any]) -> TaskBundle:
    """A task whose run(x, s) changes s; both are 64 numbers."""
    whole = task(
        reference_py=f"import torch\n\n\ndef run(x, s):\n{body}",
        get_inputs_py=(
            "import torch\n\n\ndef get_inputs(config):\n    torch.manual_seed(config['seed'])\n"
            "    return [torch.randn(64, device=config['device']) for _ in range(2)]\n"
        ),
    )
    hidden = json.loads(whole.hidden["workloads.json"]) | {
        "variations": [],
        "outputs": outputs or ["y"],
        "mutated_inputs": [{"argument": "s", "effect": effect}],
        "gates": list(gates) or STATE,
    }
    return dataclasses.replace(whole, hidden={**whole.hidden, "workloads.json": json.dumps(hidden)})


def proved(bundle: TaskBundle) -> str:
    return prove_here(LoadedTask(bundle), CpuDevice(), "0" * 64, lambda _: None)[0].message


@pytest.mark.parametrize("start", ["s.mul_(0.9999).add_(x)", "s.mul_(0.9).add_(x)"])
@pytest.mark.parametrize("effect", ["adds", "writes"])
def test_an_effect_that_the_reference_does_not_have_is_said(start: str, effect: str) -> None:
    told = proved(stateful(f"    {start}\n    return x * 2\n", effect))
    assert f"3 calls of reference.py do not leave s as its effect {effect!r} says" in told


def test_outputs_that_follow_from_the_state_are_said() -> None:
    assert "call 3 of reference.py on one state gives other outputs" in proved(
        stateful("    s.add_(x)\n    return s * 2\n", "adds")
    )


def test_state_that_three_calls_leave_passes_where_it_is_as_declared() -> None:
    gate = {"output": "s", "gate": "rel_norm", "change": True, "limit": 0.01}
    assert proved(stateful("    s.add_(x)\n    return x * 2\n", "adds", None, STATE[0], gate)) == ""


@pytest.mark.parametrize(
    ("output", "told"),
    [
        ("x * 1.0001", "copies of argument 0 as y beside right outputs pass every gate"),
        ("1.0 + x * 1e-6", "ones as y beside right outputs pass every gate"),
    ],
)
def test_one_output_that_takes_no_computation_is_found_beside_right_ones(output: str, told: str) -> None:
    gates = [{"output": name, "gate": "rel_norm", "limit": 1e-3} for name in ("y", "t")]
    state = {"output": "s", "gate": "rel_norm", "change": True, "limit": 0.01}
    bundle = stateful(f"    s.add_(x)\n    return {output}, x.sum().reshape(1)\n", "adds", ["y", "t"], *gates, state)
    assert told in proved(bundle)
