"""What `tasks check` says of a task whose sources do not show what they should."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")

from d2k_agent.app.proving import fails_there, proofs_of, shortcoming
from d2k_agent.app.surroundings import here
from d2k_agent.catalog import Finding, check_task, find_task, new_task
from d2k_agent.contract import Check, Environment, Verdict, VerdictStatus, WorkloadResult

WRONG = """
[[wrong]]
name = "nothing_is_wrong"
source = "expert.py"
fails = "y finite"
replace = [["num_warps=8", "num_warps=4"]]

[[wrong]]
name = "fails_elsewhere"
source = "baseline.py"
fails = "y close"
replace = [["* factor, mask", "* factor * 2.0, mask"]]
"""


def proofs(folder: Path) -> dict[str, Finding]:
    return {finding.check: finding for finding in proofs_of(here(), find_task(folder), lambda _: None)}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    new_task("mine", tmp_path / "mine")
    return tmp_path / "mine"


def test_an_expert_near_a_limit_and_wrong_kernels_that_are_not_found_are_said(folder: Path) -> None:
    expert = folder / "guidance" / "expert.py"
    expert.write_text(expert.read_text().replace("* factor,", "* (factor * 1.0000009),"))
    (folder / "guidance" / "wrong.toml").write_text(WRONG)
    found = proofs(folder)
    assert found["proof"].passed and found["compiles"].passed and found["baseline"].passed
    assert "of its limit on smoke_n1000: the gate is to be reached with at most 75%" in found["expert"].message
    told = found["wrong kernels"].message
    assert "nothing_is_wrong passes every check" in told
    assert "fails_elsewhere must fail at y close, and fails at y rel_norm" in told


@pytest.mark.parametrize(("registered", "part", "most"), [(True, 0.6, "50%"), (False, 0.6, ""), (False, 0.8, "75%")])
def test_half_of_a_gate_is_left_at_the_registered_shapes_and_a_quarter_at_small_ones(
    registered: bool, part: float, most: str
) -> None:
    checks = (Check("y", "rel_norm", part * 0.012, 0.012, True), Check("y", "memory", 0.99, 1.0, True))
    result = WorkloadResult("large", VerdictStatus.UNTIMED, checks, registered)
    environment = Environment("host", "cpu", "CPU", "b200", "none", "3.11", "2.13", "3.7", "e" * 64, "t" * 64)
    told = shortcoming(Verdict(VerdictStatus.UNTIMED, "a" * 64, "correct", environment, workloads=(result,)))
    assert told.startswith(f"y rel_norm is {part:.0%} of its limit on large") if most else told == ""
    assert most in told


@pytest.mark.parametrize(
    ("fails", "found", "there"),
    [
        ("y finite", ["x exact", "y finite"], True),
        ("y finite", ["y exact"], False),
        ("recv_[qs] *", ["recv_s repeat"], True),
        ("recv_[qs] *", ["recv_src exact"], False),
        ("* memory", ["* memory"], True),
        ("* memory", ["* workspace"], False),
    ],
)
def test_where_a_wrong_kernel_must_fail_may_be_a_pattern(fails: str, found: list[str], there: bool) -> None:
    assert fails_there(fails, found) is there


def test_an_expert_beyond_the_tasks_memory_is_found_at_the_registered_shapes(folder: Path) -> None:
    (folder / "guidance" / "wrong.toml").unlink()
    expert = folder / "guidance" / "expert.py"
    expert.write_text(expert.read_text().replace("n = x.numel()", "n = x.numel()\n    spare = torch.empty_like(x)"))
    found = proofs(folder)
    assert "large_n16777216: 134217728 bytes of tensors were alive at once" in found["compiles"].message
    assert found["expert"].passed, "at the small shapes it fits"
    assert "wrong kernels" not in found


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[wrong]\n", "correct the TOML"),
        ("[[wrong]]\nname = 'a'\n", "wrong[0].source: missing"),
        (WRONG.replace("num_warps=8", "num_warps=77"), "replaces 'num_warps=77', which expert.py has 0 times"),
        (WRONG.replace("fails_elsewhere", "nothing_is_wrong"), "2 wrong kernels are called nothing_is_wrong"),
    ],
)
def test_a_file_of_wrong_kernels_that_is_wrong_itself_is_refused(folder: Path, text: str, said: str) -> None:
    (folder / "guidance" / "wrong.toml").write_text(text)
    (finding,) = [finding for finding in check_task(find_task(folder)) if finding.check == "wrong.toml"]
    assert not finding.passed
    assert said in finding.message
