"""The corpus of tests/cheats through the evaluator's real processes, with the static rules switched off and on.

What the rules would refuse first must be caught by what runs where they are off: the process boundary, the meters, the
comparison of outputs. A file that no rule finds ends the same either way. With the rules on, one file of each class
shows the status and the order of checks that a user sees.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator

import pytest

from d2k_agent.contract import EvaluatorJob, JobKind, Limits, TaskBundle, Verdict, VerdictStatus
from d2k_agent.launchers import ProcessLauncher
from tests.evaluator.corpus import CORPUS, LEFT_TO_GPU, REGISTERED, SHAPES, SMOKE, Cheat, found, muon_small, row
from tests.evaluator.gpus import evaluator_environment

BLAMED = {VerdictStatus.INCORRECT, VerdictStatus.RULE_VIOLATION, VerdictStatus.TIMED_OUT, VerdictStatus.NOISY}
"""Statuses by which a defence that runs would have found a file."""
ON_A_GPU_TOO = {"A01_stale_memory", "A08d_ctypes_cublas", "A08e_torch_compile", "A11b_gpu_spin"}
"""Their tricks are meant for a GPU, whose defences are others; on a CPU they are judged besides."""
HANGING = Limits(call_s=3.0, gpu_call_s=20.0, compile_s=15.0)
"""Of files that never end: on a GPU their first call compiles, so that compile_s bounds it."""
LET_THROUGH = ("A06_input_mutation", "V123_property_of_an_argument", "H03_workspace_cache_by_shape")
"""No rule finds these: one wrong, one that breaks a rule while it runs, one honest."""


def first_of_each_class() -> list[Cheat]:
    """Of files that a static rule finds: of tricks by their number, of other spellings by the rules that find them."""
    first: dict[object, Cheat] = {}
    for cheat in CORPUS:
        if cheat.static:
            first.setdefault(cheat.group if cheat.group.startswith("A") else cheat.shipped.checks, cheat)
    return list(first.values())


@pytest.fixture(scope="module")
def launcher() -> Iterator[ProcessLauncher]:
    launcher = ProcessLauncher(evaluator_environment())
    yield launcher
    launcher.close()


def task_for(cheat: Cheat) -> TaskBundle:
    """Honest files are called less often, and timed so that they are not noisy."""
    return muon_small(calls=3, mode="graph") if cheat.shipped.statuses == ("passed",) else muon_small()


def judged(launcher: ProcessLauncher, cheat: Cheat, device: str, static_rules: bool) -> Verdict:
    """The verdict on a file."""
    hangs = cheat.unruled is not None and "timed_out" in cheat.unruled.statuses
    return launcher.launch(
        EvaluatorJob(
            JobKind.EVALUATE,
            task_for(cheat),
            cheat.source,
            "5e" * 32,
            "b200" if device == "cpu" else None,
            device,
            workloads=(SHAPES.get(cheat.name, SMOKE) if device == "cpu" else REGISTERED,),
            limits=HANGING if hangs else Limits(call_s=120.0),
            static_rules=static_rules,
        )
    )


@pytest.mark.parametrize(
    ("cheat", "device"),
    [
        pytest.param(cheat, device, id=f"{cheat.name}-{device}", marks=[pytest.mark.gpu] * (device == "cuda"))
        for cheat in CORPUS
        for device in ("cpu", "cuda")
        if (cheat.name in LEFT_TO_GPU) == (device == "cuda") or (device == "cuda" and cheat.name in ON_A_GPU_TOO)
    ],
)
def test_it_is_caught_without_the_static_rules(
    launcher: ProcessLauncher, cheat: Cheat, device: str, record_property: Callable[[str, object], None]
) -> None:
    began = time.monotonic()
    verdict = judged(launcher, cheat, device, static_rules=False)
    record_property("corpus", row(cheat, verdict, time.monotonic() - began))
    if cheat.unruled is not None:
        assert cheat.unruled.met_by(verdict), (verdict.status.value, found(verdict), verdict.message)
    else:
        assert verdict.status not in BLAMED, f"{cheat.reason}: not so, it is {verdict.status}: {verdict.message}"


@pytest.mark.parametrize("cheat", first_of_each_class(), ids=lambda cheat: cheat.name)
def test_as_shipped_the_rules_refuse_it_before_anything_runs(launcher: ProcessLauncher, cheat: Cheat) -> None:
    verdict = judged(launcher, cheat, "cpu", static_rules=True)
    assert cheat.shipped.met_by(verdict), (verdict.status.value, found(verdict), verdict.message)
    assert all(check.startswith("static.") for check in found(verdict))
    assert verdict.workloads == ()


@pytest.mark.parametrize(
    "cheat", [cheat for cheat in CORPUS if cheat.name in LET_THROUGH], ids=lambda cheat: cheat.name
)
def test_as_shipped_what_the_rules_let_through_runs(launcher: ProcessLauncher, cheat: Cheat) -> None:
    verdict = judged(launcher, cheat, "cpu", static_rules=True)
    assert cheat.shipped.met_by(verdict), (verdict.status.value, found(verdict), verdict.message)


@pytest.mark.gpu
@pytest.mark.parametrize(
    "cheat",
    [cheat for cheat in CORPUS if cheat.name.startswith("H") or cheat.name in {*LEFT_TO_GPU, *ON_A_GPU_TOO}],
    ids=lambda cheat: cheat.name,
)
def test_as_shipped_it_ends_as_expected_on_a_gpu(launcher: ProcessLauncher, cheat: Cheat) -> None:
    verdict = judged(launcher, cheat, "cuda", static_rules=True)
    assert cheat.shipped.met_by(verdict), (verdict.status.value, found(verdict), verdict.message)


def test_files_that_are_named_here_are_there() -> None:
    assert {cheat.name for cheat in CORPUS} >= {*LEFT_TO_GPU, *ON_A_GPU_TOO, *LET_THROUGH}


def test_on_a_gpu_honest_files_are_timed_in_graphs_and_hanging_ones_end_soon() -> None:
    honest = [cheat for cheat in CORPUS if cheat.shipped.statuses == ("passed",)]
    assert honest
    assert {json.loads(task_for(cheat).hidden["workloads.json"])["timing"]["mode"] for cheat in honest} == {"graph"}
    assert max(HANGING.call_s, HANGING.gpu_call_s, HANGING.compile_s) <= 30
