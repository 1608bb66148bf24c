"""The interpreter's arithmetic with the shim, against torch. The kernels run in a process of their own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton")

PROBE = Path(__file__).with_name("numerics_probe.py")
ROOT = Path(__file__).parents[2]


def differences(*arguments: str) -> dict[str, int | str]:
    """Per probe the number of values that differ from torch's, or the error that the kernel raised."""
    finished = subprocess.run(
        [sys.executable, str(PROBE), *arguments],
        env={"TRITON_INTERPRET": "1", "PYTHONPATH": str(ROOT), "HOME": str(ROOT), "OMP_NUM_THREADS": "1"},
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert finished.returncode == 0, finished.stderr
    answers: dict[str, int | str] = json.loads(finished.stdout.splitlines()[-1])
    return answers


@pytest.fixture(scope="module")
def exact() -> dict[str, int | str]:
    return differences()


def wrong(answers: dict[str, int | str], prefix: str) -> dict[str, int | str]:
    chosen = {name: answer for name, answer in answers.items() if name.startswith(prefix)}
    assert chosen, f"no probe is called {prefix}*"
    return {name: answer for name, answer in chosen.items() if answer != 0}


@pytest.mark.parametrize(
    "prefix",
    ["bf16.", "fp16.", "fp32.", "e4m3.", "e5m2.", "cast.fp32_to_bf16", "cast.fp32_to_e4m3", "cast.", "autotune"],
)
def test_interpreted_kernels_agree_with_torch(exact: dict[str, int | str], prefix: str) -> None:
    assert wrong(exact, prefix) == {}


def test_running_sums_of_bf16_are_rounded_once(exact: dict[str, int | str]) -> None:
    assert wrong(exact, "bf16.cumsum") == {}


def test_concurrent_additions_to_one_bf16_address_all_arrive(exact: dict[str, int | str]) -> None:
    assert wrong(exact, "bf16.atomic_add") == {}


def test_the_plain_interpreter_is_wrong_where_the_shim_helps_and_right_elsewhere() -> None:
    plain = differences("--plain")
    helped = ("bf16.add", "bf16.dot", "bf16.compare", "bf16.full", "bf16.atomic_add", "cast.fp32_to_bf16", "autotune")
    assert all(plain[name] != 0 for name in helped)
    assert wrong(plain, "fp32.") == wrong(plain, "fp16.") == {}
