"""Code of a candidate that runs beside its calls: when Python lets go of what one left, or when we touch an output."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from d2k_agent.contract import VerdictStatus
from d2k_agent.launchers import ProcessLauncher
from tests.evaluator.scaling import KERNEL, job

_LATE = """
box = {}


def late():
    try:
        yield
    finally:
        box["x"][:1] * 3.0


"""
IN_A_CYCLE = _LATE + (
    """
def run(x, factor):
    box["x"] = x
    cell = [late()]
    next(cell[0])
    cell.append(cell)
    return scaled(x, factor)
"""
)
ON_AN_OUTPUT = _LATE + (
    """
def run(x, factor):
    box["x"] = x
    y = scaled(x, factor)
    y.left = late()
    next(y.left)
    return y
"""
)
WHERE_AN_OUTPUT_IS_HANDED_OVER = """
known = torch.Tensor.dim


def dim(y):
    torch.Tensor.dim = known
    y[:1] * 3.0
    return known(y)


def run(x, factor):
    torch.Tensor.dim = known
    y = scaled(x, factor)
    torch.Tensor.dim = dim
    return y
"""
INSTEAD_OF_THE_COPY = """
known = torch.Tensor.copy_, torch.Tensor.fill_, torch.Tensor.untyped_storage


def never(*given):
    raise ValueError("never")


def run(x, factor):
    torch.Tensor.copy_, torch.Tensor.fill_, torch.Tensor.untyped_storage = known
    y = scaled(x, factor)
    torch.Tensor.copy_ = torch.Tensor.fill_ = torch.Tensor.untyped_storage = never
    return y
"""


@pytest.fixture(scope="module")
def launcher() -> Iterator[ProcessLauncher]:
    launcher = ProcessLauncher({"PATH": os.environ["PATH"], "HOME": "/tmp"})
    yield launcher
    launcher.close()


@pytest.mark.parametrize("source", [IN_A_CYCLE, ON_AN_OUTPUT, WHERE_AN_OUTPUT_IS_HANDED_OVER])
def test_what_runs_beside_a_call_is_looked_at(launcher: ProcessLauncher, source: str) -> None:
    verdict = launcher.launch(job(KERNEL + source, static_rules=False))
    assert verdict.status is VerdictStatus.RULE_VIOLATION, verdict.message
    assert "computed with PyTorch (mul)" in verdict.message


def test_outputs_are_copied_and_poisoned_as_pytorch_did_before_the_candidate_came(launcher: ProcessLauncher) -> None:
    verdict = launcher.launch(job(KERNEL + INSTEAD_OF_THE_COPY, static_rules=False, workloads=("smoke_n1000",)))
    assert verdict.status is VerdictStatus.UNTIMED, verdict.message
