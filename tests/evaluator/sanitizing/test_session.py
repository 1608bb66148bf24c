"""A candidate under a stand-in for compute-sanitizer: the real target on a CPU, and every way it can go wrong."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from d2k_agent.contract import SanitizerCheck, SanitizerReport, VerdictStatus
from d2k_agent.evaluator.faults import CandidateFault
from d2k_agent.evaluator.profiling import target
from d2k_agent.evaluator.profiling.ncu import Finished
from d2k_agent.evaluator.profiling.report import Progress
from d2k_agent.evaluator.sanitizing import SanitizerUnavailable, sanitize_candidate
from d2k_agent.evaluator.sanitizing.session import command_line, report_of
from tests.evaluator.profiling.fakes import GENERATOR, environment, runs_target

CASES = Path(__file__).with_name("cases")
FOUND, CLEAN = ((CASES / name).read_text() for name in ("sanitizer_memcheck_out_of_bounds.txt", "sanitizer_clean.txt"))
SMOKE = [{"label": "smoke_a", "n": 8}, {"label": "smoke_b", "n": 16}]
SIZES = """
import os


def run(x):
    open(os.path.join(os.getcwd(), f"seen{x.numel()}"), "w").close()
    assert os.path.exists("seen8")
    return x
"""


def test_every_smoke_workload_is_called_once_and_the_tools_words_become_a_report(tmp_path: Path) -> None:
    script = runs_target(tmp_path, CLEAN)
    report = sanitize_candidate(
        SIZES,
        GENERATOR,
        SMOKE,
        SanitizerCheck.INITCHECK,
        scratch_parent=str(tmp_path),
        limit_s=60.0,
        unsafe=False,
        environment=environment(tmp_path, script, name="compute-sanitizer"),
        device="cpu",
    )
    assert report == SanitizerReport(
        SanitizerCheck.INITCHECK, "compute-sanitizer 2025.3.1.0", ("smoke_a", "smoke_b"), 0
    )
    assert report.clean
    assert not list(tmp_path.glob("sanitize-*"))


def test_no_tool_is_said() -> None:
    with pytest.raises(SanitizerUnavailable, match=r"not found on the PATH.*install it"):
        sanitize_candidate(
            SIZES,
            GENERATOR,
            SMOKE,
            SanitizerCheck.MEMCHECK,
            scratch_parent="/nowhere",
            limit_s=5.0,
            unsafe=False,
            environment={},
        )


def test_the_command_line_is_fixed() -> None:
    argv = command_line("/opt/compute-sanitizer", SanitizerCheck.RACECHECK)
    assert argv[:3] == ["/opt/compute-sanitizer", "--tool", "racecheck"]
    assert argv[argv.index(sys.executable) :][:3] == [sys.executable, "-P", "-c"]
    assert "--report-api-errors" not in argv
    assert "--report-api-errors" in command_line("/opt/compute-sanitizer", SanitizerCheck.MEMCHECK)


DONE = Progress(target.PROFILING, target.DONE)
RAISED = Progress(target.PROFILING, target.RAISED, b'{"kinds": ["RuntimeError"], "text": "CUDA error", "line": 9}')


def told(progress: Progress, output: str, late: bool = False) -> SanitizerReport:
    return report_of(progress, Finished(output, late), SanitizerCheck.MEMCHECK, "tool", ["smoke_a"], 30.0)


@pytest.mark.parametrize("progress", [DONE, RAISED, Progress(target.PROFILING, target.STAGE)])
def test_an_error_of_the_tools_is_the_answer_also_where_the_call_raised_because_of_it(progress: Progress) -> None:
    report = told(progress, FOUND)
    assert (report.errors, len(report.first), report.clean, report.notes) == (186146, 1, False, ())


def test_errors_before_time_was_up_are_told() -> None:
    report = told(Progress(target.PROFILING, target.STAGE), FOUND.partition("========= ERROR SUMMARY")[0], late=True)
    assert report.errors == 3 and "did not come to its end: there may be more" in report.notes[0]
    assert report.warnings is None and not report.clean, "nobody counted them"


def test_errors_before_the_output_was_cut_are_told() -> None:
    printed = Finished(FOUND.partition("========= ERROR SUMMARY")[0], False, cut=True)
    report = report_of(DONE, printed, SanitizerCheck.MEMCHECK, "tool", ["smoke_a"], 30.0)
    assert report.errors == 3 and report.notes == ("what it printed was cut: there may be more",)


def test_what_is_counted_and_not_told_is_not_clean() -> None:
    report = told(DONE, "========= ERROR SUMMARY: 2 errors\n")
    assert not report.clean and "names no kernel" in report.notes[0]


@pytest.mark.parametrize(
    ("progress", "output", "late", "said"),
    [
        (DONE, "", False, "did not carry its target through: it printed nothing"),
        (Progress(), "Internal Sanitizer Error", False, "through: Internal Sanitizer Error"),
        (Progress(target.PROFILING, target.STAGE), "", True, "memcheck did not finish within 30 s .*fewer workloads"),
        (Progress(None, target.UNABLE, b"CUDA does not start"), "", False, "CUDA does not start"),
    ],
)
def test_what_the_machine_or_the_tool_did_is_not_the_candidates_fault(
    progress: Progress, output: str, late: bool, said: str
) -> None:
    with pytest.raises(SanitizerUnavailable, match=said):
        told(progress, output, late)


@pytest.mark.parametrize(
    ("progress", "status"),
    [(RAISED, VerdictStatus.RUNTIME_ERROR), (Progress(target.WARMING, target.STAGE), VerdictStatus.ENDED_EARLY)],
)
def test_what_the_candidate_did_without_an_error_of_the_tools_is_its_fault(
    progress: Progress, status: VerdictStatus
) -> None:
    with pytest.raises(CandidateFault) as caught:
        told(progress, CLEAN)
    assert caught.value.status is status
