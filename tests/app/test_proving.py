"""What `tasks check` says of a task whose sources do not show what they should."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest.importorskip("torch")

from d2k_agent.app.evaluation import Evaluation
from d2k_agent.app.proving import fails_there, proof_by_wrong_kernels, proofs_of, shortcoming
from d2k_agent.app.surroundings import here
from d2k_agent.catalog import Finding, check_task, find_task, new_task, wrong_kernels
from d2k_agent.contract import (
    Check,
    Environment,
    EvaluatorJob,
    JobKind,
    Verdict,
    VerdictStatus,
    Violation,
    WorkloadResult,
)
from d2k_agent.launchers import FakeLauncher

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


HARMLESS = "def run(G, steps=5):\n    return G\n"
ENVIRONMENT = Environment("host", "cpu", "CPU", "b200", "none", "3.11", "2.13", "3.7", "e" * 64, "t" * 64)


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


def proved(slug: str, unlucky: int) -> tuple[Finding, list[EvaluatorJob]]:
    """The proof by wrong kernels where as many verdicts on the first one miss it, by turns in either way, and all
    others are right; and the jobs about that one."""
    task = find_task(slug)
    kernels = {kernel.text: kernel for kernel in wrong_kernels(task)}
    first = next(iter(kernels))
    misses = [VerdictStatus.UNTIMED, VerdictStatus.RUNTIME_ERROR, VerdictStatus.UNTIMED][:unlucky]

    def answer(job: EvaluatorJob) -> Verdict:
        if job.candidate == first and misses:
            return Verdict(misses.pop(0), job.candidate_sha256, "chance", ENVIRONMENT)
        one_of_them = re.sub(r"\[(.)[^]]*\]", r"\1", kernels[job.candidate].fails)
        broken = Violation(one_of_them, "a gate is told as a rule is")
        status = VerdictStatus.RULE_VIOLATION
        return Verdict(status, job.candidate_sha256, "wrong", ENVIRONMENT, violations=(broken,))

    launcher = FakeLauncher(answer)
    evaluation = Evaluation(launcher, task, target=None, device="cpu", unsafe=False, repeatable=True)
    (finding,) = proof_by_wrong_kernels(evaluation, task, ["small"], lambda _: None)
    return finding, [job for job in launcher.jobs if job.candidate == first]


@pytest.mark.parametrize(("unlucky", "tries"), [(0, 1), (1, 2), (2, 3), (3, 3)])
def test_what_chance_hides_on_several_ranks_is_judged_again_on_other_data(unlucky: int, tries: int) -> None:
    finding, jobs = proved("ep_dispatch_fp8", unlucky)
    assert len({job.seed for job in jobs}) == len(jobs) == tries
    assert finding.passed is (unlucky < 3)
    if unlucky < 3:
        assert finding.seen.endswith(f" in try {tries}" if unlucky else "fail where they must")
    else:
        assert "passes every check" in finding.message


def test_on_one_gpu_nothing_is_judged_again() -> None:
    finding, jobs = proved("muon", 1)
    assert len(jobs) == 1 and "passes every check" in finding.message


def test_data_of_a_proof_follow_from_the_task_and_what_is_judged() -> None:
    def seeds(slug: str, repeatable: bool) -> list[str]:
        launcher = FakeLauncher(lambda job: Verdict(VerdictStatus.UNTIMED, job.candidate_sha256, "", ENVIRONMENT))
        task = find_task(slug)
        evaluation = Evaluation(launcher, task, target=None, device="cpu", unsafe=False, repeatable=repeatable)
        for kind in (JobKind.PROVE, JobKind.COMPILE, JobKind.EVALUATE):
            evaluation.judge(kind, "" if kind is JobKind.PROVE else HARMLESS)
        return [job.seed for job in launcher.jobs]

    assert seeds("muon", True) == seeds("muon", True)
    kept_apart = seeds("muon", True) + seeds("moe_grouped_topk", True) + seeds("muon", False) + seeds("muon", False)
    assert len(set(kept_apart)) == 12


@pytest.mark.parametrize(("registered", "part", "most"), [(True, 0.6, "50%"), (False, 0.6, ""), (False, 0.8, "75%")])
def test_half_of_a_gate_is_left_at_the_registered_shapes_and_a_quarter_at_small_ones(
    registered: bool, part: float, most: str
) -> None:
    checks = (Check("y", "rel_norm", part * 0.012, 0.012, True), Check("y", "memory", 0.99, 1.0, True))
    result = WorkloadResult("large", VerdictStatus.UNTIMED, checks, registered)
    told = shortcoming(Verdict(VerdictStatus.UNTIMED, "a" * 64, "correct", ENVIRONMENT, workloads=(result,)))
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
