"""Jobs that look at kernels where nobody can: the reason is a note, and the job is not lost."""

from __future__ import annotations

import shutil

import pytest

from d2k_agent.contract import JobKind, SanitizerCheck
from d2k_agent.evaluator.findings import Findings
from d2k_agent.evaluator.looking import look, nothing_to_see
from d2k_agent.evaluator.profiling.ncu import find_ncu
from tests.evaluator.scaling import HONEST, job

SMOKE = [{"label": "smoke_n1000", "n": 1000}]


@pytest.fixture(autouse=True)
def without_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PATH", "CUDA_HOME"):
        monkeypatch.setenv(name, "/nowhere")


@pytest.mark.skipif(find_ncu({"PATH": "/nowhere"}) is not None, reason="the toolkit lies where everybody finds it")
def test_a_missing_tool_is_a_note() -> None:
    found = Findings()
    look(job(HONEST, kind=JobKind.PROFILE), [{"label": "large", "n": 8}], SMOKE, found)
    look(job(HONEST, kind=JobKind.SANITIZE, check=SanitizerCheck.INITCHECK), [], SMOKE, found)
    assert shutil.which("ncu") is None
    profile, check = found.notes
    assert profile.startswith("no profile: Nsight Compute (ncu) was not found") and "compile report" in profile
    assert check.startswith("no initcheck: compute-sanitizer was not found") and "install it" in check
    assert found.profile is None and found.sanitizer is None


@pytest.mark.parametrize(
    ("kind", "words"), [(JobKind.PROFILE, ["no profile"]), (JobKind.SANITIZE, ["no memcheck"]), (JobKind.COMPILE, [])]
)
def test_on_a_cpu_there_is_nothing_to_see(kind: JobKind, words: list[str]) -> None:
    assert [
        note[: len(word)] for note, word in zip(nothing_to_see(job(HONEST, kind=kind)), words, strict=True)
    ] == words
