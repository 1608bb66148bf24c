"""The corpus of tests/cheats through the evaluator's real processes, with the static rules switched off.

What the rules would refuse first must then be caught by what runs: the process boundary, the meters, the comparison of
outputs. A file that no rule finds is judged as shipped by the same run.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Iterator

import pytest

from d2k_agent.contract import EvaluatorJob, JobKind, Limits, Verdict, VerdictStatus
from d2k_agent.launchers import ProcessLauncher
from tests.evaluator.corpus import CORPUS, LEFT_TO_GPU, REGISTERED, SHAPES, SMOKE, Cheat, found, muon_small, row

BLAMED = {VerdictStatus.INCORRECT, VerdictStatus.RULE_VIOLATION, VerdictStatus.TIMED_OUT, VerdictStatus.NOISY}
"""Statuses by which a defence that runs would have found a file."""


@pytest.fixture(scope="module")
def launcher() -> Iterator[ProcessLauncher]:
    launcher = ProcessLauncher({"PATH": os.environ["PATH"], "HOME": "/tmp"})
    yield launcher
    launcher.close()


def judged(launcher: ProcessLauncher, cheat: Cheat, device: str, note: Callable[[str, object], None]) -> Verdict:
    """The verdict on a file without static rules, noted for the table."""
    hangs = cheat.unruled is not None and "timed_out" in cheat.unruled.statuses
    job = EvaluatorJob(
        JobKind.EVALUATE,
        muon_small(calls=3) if cheat.shipped.statuses == ("passed",) else muon_small(),
        cheat.source,
        secrets.token_hex(32),
        "b200" if device == "cpu" else None,
        device,
        workloads=(SHAPES.get(cheat.name, SMOKE) if device == "cpu" else REGISTERED,),
        limits=Limits(call_s=3.0 if hangs else 120.0),
        static_rules=False,
    )
    began = time.monotonic()
    verdict = launcher.launch(job)
    note("corpus", row(cheat, verdict, time.monotonic() - began))
    return verdict


@pytest.mark.parametrize(
    ("cheat", "device"),
    [
        pytest.param(cheat, device, id=cheat.name, marks=[pytest.mark.gpu] * (device == "cuda"))
        for cheat in CORPUS
        for device in ["cuda" if cheat.name in LEFT_TO_GPU else "cpu"]
    ],
)
def test_it_is_caught_without_the_static_rules(
    launcher: ProcessLauncher, cheat: Cheat, device: str, record_property: Callable[[str, object], None]
) -> None:
    verdict = judged(launcher, cheat, device, record_property)
    if cheat.unruled is not None:
        assert cheat.unruled.met_by(verdict), (verdict.status.value, found(verdict), verdict.message)
    else:
        assert verdict.status not in BLAMED, f"{cheat.reason}: not so, it is {verdict.status}: {verdict.message}"


def test_what_is_left_to_a_gpu_is_a_file() -> None:
    assert {cheat.name for cheat in CORPUS} >= set(LEFT_TO_GPU)
