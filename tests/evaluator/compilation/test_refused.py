"""What does not compile, fit, launch or end: one sentence for the author, with names, lines and numbers."""

from __future__ import annotations

import re
from typing import Any

from d2k_agent.contract.wire import to_data
from tests.evaluator.compilation.conftest import PRODUCTION, SQUARE, job

JOBS = {
    "shared memory": job("D09a_out_of_resources", "b200", PRODUCTION),
    "one of several": job("one_does_not_fit", "h200", SQUARE),
    "at several": job("one_does_not_fit", "h200", SQUARE, [[4096, 4096]], [[2048, 2048]]),
    "no such name": job("D09b_compile_error", "b200", PRODUCTION),
    "unknown instruction": job("unknown_instruction", "h200", SQUARE),
    "crashing compiler": job("crashes_the_compiler", "b200", SQUARE),
    "grid too tall": job("grid_too_tall", "h200", SQUARE),
    "wrong host code": job("wrong_host_code", "h200", [[32, 32]], SQUARE),
    "never returns": job("never_returns", "h200", SQUARE, limit_s=2.0),
    "swallows": job("makes_another_error_of_the_limit", "h200", SQUARE, limit_s=2.0),
    "leaves": job("leaves", "h200", SQUARE),
    "no time for kernels": job("compiles_for_minutes", "h200", SQUARE, limit_s=2.0),
    "unknown target": job("gluon_copy", "b9", SQUARE),
    "interpreting": job("leaves", "h200", SQUARE, environment={"TRITON_INTERPRET": "1"}),
}


def test_too_much_shared_memory_names_kernel_line_needed_and_available_bytes(answers: dict[str, Any]) -> None:
    report = answers["shared memory"].report
    assert report.error_kind == "launch"
    assert "workload w0: kernel _mm (line 8, launched by line 25) does not fit b200" in report.error
    assert "bytes of shared memory, 232448 bytes are available" in report.error
    needed = re.search(r"it needs (\d+) bytes", report.error)
    assert needed is not None and int(needed[1]) > 3 * 256 * 256 * 2


def test_beside_kernels_that_do_not_fit_the_others_and_their_warnings_are_told(answers: dict[str, Any]) -> None:
    report = answers["one of several"].report
    assert report.error_kind == "launch" and report.error.startswith("workload w0: kernel _greedy (line ")
    assert [kernel.name for kernel in report.kernels if kernel.launches] == ["_double", "_few"]
    greedier, few = report.warnings
    assert greedier.startswith("kernel _greedier (line ") and "bytes of shared memory, 232448 bytes" in greedier
    assert few.startswith("kernel _few (line ") and "130 of the 132 multiprocessors of h200 stay idle" in few
    assert report.workloads == () and report.peak_bytes == {}, "none went through"


def test_every_workload_at_which_a_kernel_does_not_fit_is_named(answers: dict[str, Any]) -> None:
    one, several = (answers[name].report for name in ("one of several", "at several"))
    assert several.error == f"{one.error} It does not fit at w0, w1, w2."
    assert several.warnings[0] == one.warnings[0].replace("at w0.", "at w0, w1, w2.") != one.warnings[0]
    assert one.error.endswith("Use smaller tiles or fewer num_stages."), "the one workload is named before it"


def test_a_compile_error_names_the_line_shows_it_and_says_why(answers: dict[str, Any]) -> None:
    report = answers["no such name"].report
    assert report.error_kind == "compile" and len(report.error) <= 4000
    assert "kernel _bad (line 8, launched by line 15) does not compile: solution.py line 9: arange's" in report.error
    assert "    9 |     o = tl.program_id(0) * BLOCK" in report.error and report.error.endswith("^")


def test_ptxas_refusing_is_told_without_its_command_line(answers: dict[str, Any]) -> None:
    report = answers["unknown instruction"].report
    assert report.error_kind == "compile"
    assert "kernel _bogus" in report.error and "ptxas refuses" in report.error and "frobnicate" in report.error
    assert "Repro" not in report.error and "/" not in report.error


def test_a_compiler_that_crashes_is_told_with_its_last_words(answers: dict[str, Any]) -> None:
    report = answers["crashing compiler"].report
    assert report.error_kind == "compile"
    assert "kernel _bogus (line 16, launched by line 23) cannot be compiled for b200" in report.error
    assert "the compiler crashed: LLVM ERROR: cannot select the instruction" in report.error


def test_a_grid_that_no_gpu_accepts_is_refused(answers: dict[str, Any]) -> None:
    report = answers["grid too tall"].report
    assert report.error_kind == "launch"
    assert "kernel _mark (line 7, launched by line 13) cannot be launched: grid (1, 67108864, 1)" in report.error


def test_an_exception_in_host_code_names_line_and_workload(answers: dict[str, Any]) -> None:
    report = answers["wrong host code"].report
    assert report.error_kind == "run" and report.workloads == ("w0",)
    assert report.error == "workload w1: ValueError at solution.py line 6: this kernel wants at most 64 rows"


def test_leaving_the_process_is_a_failure_of_the_candidate(answers: dict[str, Any]) -> None:
    report = answers["leaves"].report
    assert report.error_kind == "exit" and "SystemExit(0) at solution.py line 5" in report.error


def test_host_code_that_never_returns_ends_at_the_limit(answers: dict[str, Any]) -> None:
    answer = answers["never returns"]
    assert answer.report.error_kind == "time" and answer.seconds < 10
    told = "did not finish within 2 s; the Python code of solution.py was still running, at line "
    assert told in answer.report.error and "Look for a loop in it that does not end." in answer.report.error


def test_a_limit_that_the_candidate_makes_another_error_of_is_told_as_the_limit(answers: dict[str, Any]) -> None:
    report = answers["swallows"].report
    assert report.error_kind == "time"
    told = re.search(r"the Python code of solution.py was still running, at line (\d). Look for a loop", report.error)
    assert told is not None and told[1] in "34", "where the loop is, not the other error"


def test_a_compiler_that_takes_too_long_is_ended_and_named(answers: dict[str, Any]) -> None:
    answer = answers["no time for kernels"]
    assert answer.report.error_kind == "time" and answer.seconds < 12
    assert (
        "0 of 1 kernel variants were compiled; kernel _unrolled was still being compiled after" in answer.report.error
    )


def test_an_unknown_target_is_an_error_of_the_caller_that_lists_the_known_ones(told: dict[str, Any]) -> None:
    assert told["unknown target"]["raised"].startswith("ValueError: unknown target 'b9'")
    assert "b200, b300, h100, h200" in told["unknown target"]["raised"]


def test_a_process_that_interprets_kernels_refuses_to_compile_them(told: dict[str, Any]) -> None:
    assert told["interpreting"]["raised"].startswith("RuntimeError: this process interprets kernels")


def test_reports_of_failures_are_bounded_data(answers: dict[str, Any]) -> None:
    assert answers and all(len(str(to_data(answer.report))) < 200_000 for answer in answers.values())
