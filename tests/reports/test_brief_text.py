"""The wording for a model: what people read in tables, in fewer tokens and within a bound."""

from __future__ import annotations

import re
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as some

from d2k_agent.config import PROFILE_TOKENS
from d2k_agent.contract import (
    Check,
    CompileReport,
    JobKind,
    KernelProfile,
    KernelReport,
    Measurement,
    Profile,
    Verdict,
    VerdictStatus,
    Violation,
    WorkloadResult,
)
from d2k_agent.models.tokens import count_tokens
from d2k_agent.reports.brief_compile import MOST_TOKENS, brief_compile, within
from d2k_agent.reports.brief_profile import brief_profile
from d2k_agent.reports.brief_text import MOST_VERDICT_TOKENS, brief_answer
from d2k_agent.reports.compile_text import compile_text
from d2k_agent.reports.profile_text import profile_text
from d2k_agent.reports.verdict_text import verdict_text
from tests.reports.test_compile_text import COPY, PRODUCT, REPORT
from tests.reports.test_profile_text import PRODUCT as PROFILED
from tests.reports.test_profile_text import PROFILE
from tests.reports.test_verdict_text import failed, verdict

VARIANTS = tuple(
    replace(PRODUCT, registers=regs, launches=launches, constexprs={"M": str(m), "K": str(m // 2), "TILE": "128"})
    for m, regs, launches in ((2048, 126, 5), (4096, 127, 5), (7168, 124, 4))
)


def numbers(text: str) -> set[str]:
    return set(re.findall(r"\d+(?:\.\d+)?", text.replace(",", "")))


def test_what_variants_share_is_said_once_and_what_differs_in_rows() -> None:
    text = brief_compile(replace(REPORT, kernels=(COPY, *VARIANTS)))
    lines = text.splitlines()
    assert lines[0] == "compiles for b200 (sm_100, Triton 3.7.1), kernel variants: 4"
    head = next(line for line in lines if line.startswith("product:30"))
    assert "warps=4" in head and "TILE=128" in head and "tcgen05.mma=8" in head and "spill=84" in head
    at = lines.index(head)
    assert [line.split() for line in lines[at + 1 : at + 5]] == [
        ["launches", "regs", "M", "K"],
        ["5", "126", "2048", "1024"],
        ["5", "127", "4096", "2048"],
        ["4", "124", "7168", "3584"],
    ]
    assert text.count("TILE") == 1


def test_one_field_that_differs_stands_in_the_line_itself() -> None:
    text = brief_compile(replace(REPORT, kernels=tuple(replace(COPY, constexprs={"SIZE": s}) for s in "123")))
    assert "SIZE=1|2|3" in text


def test_zeros_are_left_out_and_unknown_is_said() -> None:
    kernel = replace(COPY, registers=None, spill_store_bytes=None)
    text = brief_compile(replace(REPORT, kernels=(kernel,)))
    assert "regs=unknown" in text and "spill=unknown" in text and "shared" not in text and "tmem" not in text


def test_a_compile_error_keeps_the_line_it_points_at_and_not_those_above() -> None:
    error = "kernel k does not compile: solution.py line 7: no\n    6 | above = 1\n    7 | here = 2\n        ^"
    text = brief_compile(CompileReport("b200", "sm_100", "3.7.1", (), (), error=error, error_kind="compile"))
    assert text.startswith("does not compile for b200") and "7 | here = 2\n        ^" in text
    assert "above" not in text


kernels = some.builds(
    KernelReport,
    name=some.sampled_from(["a", "product", "k" * 60]),
    num_warps=some.sampled_from([4, 8]),
    num_stages=some.integers(1, 5),
    registers=some.none() | some.integers(0, 255),
    spill_store_bytes=some.none() | some.integers(0, 64),
    spill_load_bytes=some.none() | some.integers(0, 64),
    stack_bytes=some.just(0),
    shared_bytes=some.integers(0, 232448),
    tensor_memory_columns=some.none() | some.integers(0, 512),
    instructions=some.dictionaries(some.sampled_from(["wgmma", "cp.async", "cvt:f32->f16"]), some.integers(0, 99)),
    constexprs=some.dictionaries(some.sampled_from(["M", "N", "warps", "TILE"]), some.integers(0, 9999).map(str)),
    launches=some.integers(1, 90),
    source_line=some.integers(1, 99),
)


@settings(max_examples=60, deadline=None)
@given(some.lists(kernels, max_size=60), some.text(max_size=3000), some.lists(some.text(max_size=400), max_size=30))
def test_a_report_is_bounded_whatever_is_in_it(found: list[KernelReport], error: str, warnings: list[str]) -> None:
    report = CompileReport("b200", "sm_100", "3.7", tuple(found), (), error=error or None, warnings=tuple(warnings))
    assert count_tokens(brief_compile(report)) <= MOST_TOKENS


@settings(max_examples=60, deadline=None)
@given(some.lists(kernels, min_size=1, max_size=8))
def test_every_number_of_the_table_is_told(found: list[KernelReport]) -> None:
    report = CompileReport("b200", "sm_100", "3.7", tuple(found), ())
    brief, table = numbers(brief_compile(report)), numbers(compile_text(report, 20_000))
    assert {number for number in table if number != "0"} <= brief


@given(some.text(max_size=300), some.integers(3, 50))
def test_a_cut_text_fits_and_is_a_beginning(text: str, most: int) -> None:
    cut = within(text, most)
    assert count_tokens(cut) <= most
    assert cut == text or (cut.endswith(" (cut)") and text.startswith(cut.removesuffix(" (cut)")))


def measured() -> Verdict:
    times = [(18.34, 91.83, 5.007), (129.1, 287.9, 2.23)]
    results = tuple(
        WorkloadResult(
            f"production_b32_m{index}",
            VerdictStatus.PASSED,
            mean_ms=claim,
            speedup=speedup,
            rel_norm=0.0037,
            measurement=Measurement(claim, 20, 2, claim, "events_batch", sm_mhz=1400.0 + index, power_w=690.0),
            baseline=Measurement(base, 20, 2, base, "events_batch"),
        )
        for index, (claim, base, speedup) in enumerate(times)
    )
    return verdict(
        VerdictStatus.PASSED,
        message="correct on every check",
        workloads=results,
        geomean_speedup=3.03,
        drift=0.004,
        baseline_sha256="b" * 64,
        peak_memory_bytes=12 << 30,
        compile_report=REPORT,
    )


def test_a_measured_candidate_says_its_speedup_first_then_a_row_a_workload() -> None:
    lines = brief_answer(JobKind.EVALUATE, measured()).splitlines()
    assert lines[:4] == [
        "passed 3.03x",
        "workload speedup ms baseline_ms rel_norm",
        "production_b32_m0 5.01x 18.34 91.83 0.0037",
        "production_b32_m1 2.23x 129.1 287.9 0.0037",
    ]
    assert lines[4] == "timed by events_batch, baseline moved 0.4 %, 1400-1401 SM MHz, 690-690 W, peak memory 12.0 GiB"
    assert any(line.startswith("compiles for b200") for line in lines)


def test_a_candidate_without_a_speedup_says_why() -> None:
    moved = replace(measured(), geomean_speedup=None, drift=0.05)
    text = brief_answer(JobKind.EVALUATE, moved)
    assert text.startswith("passed\n") and "moved by 5.0 %" in text and "hand it in again" in text


def test_a_failed_check_is_told_once() -> None:
    result = failed("hidden.shifted")
    check = replace(result.checks[0], message="relative norm 0.345 is above 0.012")
    wrong = verdict(
        VerdictStatus.INCORRECT,
        message="hidden.shifted: relative norm 0.345 is above 0.012",
        workloads=(replace(result, checks=(check,)),),
    )
    assert brief_answer(JobKind.EVALUATE, wrong) == (
        "incorrect\nhidden.shifted: result rel_norm = 0.345 (limit 0.012): relative norm 0.345 is above 0.012"
    )


def test_a_violation_on_several_lines_is_told_once() -> None:
    broken = (*(Violation("glue", "no torch.matmul", line) for line in (5, 9)), Violation("import", "no ctypes"))
    text = brief_answer(JobKind.EVALUATE, verdict(VerdictStatus.RULE_VIOLATION, message="no ctypes", violations=broken))
    assert text.splitlines() == ["rule_violation", "lines 5, 9, glue: no torch.matmul", "import: no ctypes"]


def test_a_compile_job_calls_nothing_correct_and_an_error_is_told_once() -> None:
    fine = verdict(VerdictStatus.UNTIMED, message="it compiles", compile_report=REPORT)
    assert brief_answer(JobKind.COMPILE, fine) == brief_compile(REPORT)
    broken = replace(REPORT, error="kernel a does not fit", error_kind="compile")
    bad = verdict(VerdictStatus.COMPILE_ERROR, message="kernel a does not fit", compile_report=broken)
    assert brief_answer(JobKind.COMPILE, bad).count("kernel a does not fit") == 1


def test_a_profile_is_one_line_a_kernel_and_takes_the_place_of_the_report() -> None:
    profiled = verdict(VerdictStatus.UNTIMED, profile=PROFILE, compile_report=REPORT, notes=("n",))
    text = brief_answer(JobKind.PROFILE, profiled)
    assert text == f"note: n\n\n{brief_profile(PROFILE)}"
    assert (
        "_product 90.0% 9000.0 30 82.3 81.0 21.4 70.1 12.4 168; registers, shared memory; "
        "long scoreboard (waiting for global memory) 30%" in text
    )
    assert "_copy 10.0% 1000.0 1 - - - - - -; -; -" in text and "note: only a part was profiled" in text


def test_the_answer_to_a_profile_keeps_its_bound_with_and_without_one_and_says_why_first() -> None:
    report = replace(REPORT, kernels=(COPY, *VARIANTS), warnings=("w " * 200,) * 3)
    why = "no profile: candidates run on the CPU, where there is nothing to profile"
    without = verdict(VerdictStatus.UNTIMED, notes=(why,), compile_report=report)
    assert brief_answer(JobKind.PROFILE, without, None, 10_000) == f"note: {why}\n\n{brief_compile(report)}"
    for most in (100, 130, 600):
        text = brief_answer(JobKind.PROFILE, without, None, most)
        assert text.startswith(f"note: {why}\n\ncompiles for b200") and count_tokens(text) <= most
    broken = verdict(VerdictStatus.COMPILE_ERROR, message="x " * 900, compile_report=report)
    profiled = verdict(VerdictStatus.UNTIMED, profile=PROFILE, notes=("y " * 900,), compile_report=report)
    for most in (100, 600):
        texts = [brief_answer(JobKind.PROFILE, item, "more " * 900, most) for item in (broken, profiled)]
        assert max(map(count_tokens, texts)) <= most and "profile of " in texts[1]
    assert "compiles for" in brief_answer(JobKind.COMPILE, without), "another job has no such bound"


def test_texts_are_bounded_whatever_is_in_them() -> None:
    many = tuple(failed("w" * 300 + str(index)) for index in range(200))
    words = verdict(VerdictStatus.INCORRECT, message="x " * 9000, workloads=many, notes=("y " * 9000,))
    assert count_tokens(brief_answer(JobKind.EVALUATE, words)) <= MOST_VERDICT_TOKENS
    odd: KernelProfile = replace(PROFILED, name="é\n" * 900, main_stall="z " * 900)
    text = brief_answer(JobKind.PROFILE, verdict(VerdictStatus.UNTIMED, profile=Profile("w", "ncu", (odd,) * 50, 1.0)))
    assert count_tokens(text) <= PROFILE_TOKENS


def test_it_takes_fewer_tokens_than_the_tables() -> None:
    whole = measured()
    assert count_tokens(brief_answer(JobKind.EVALUATE, whole)) < 0.7 * count_tokens(verdict_text(whole))
    assert count_tokens(brief_profile(PROFILE)) < 0.7 * count_tokens(profile_text(PROFILE))
    report = replace(REPORT, kernels=VARIANTS)
    assert count_tokens(brief_compile(report)) < 0.7 * count_tokens(compile_text(report))


def test_it_is_portable() -> None:
    text = brief_answer(JobKind.EVALUATE, replace(measured(), seconds={"total": 3.21}))
    assert "somebodys-host" not in text and "3.21" not in text and "c" * 64 not in text


def test_near_a_limit_is_told_where_nothing_was_measured() -> None:
    near = WorkloadResult("smoke.a", VerdictStatus.UNTIMED, (Check("result", "rel_norm", 0.003, 0.012, True),), False)
    text = brief_answer(JobKind.EVALUATE, verdict(VerdictStatus.UNTIMED, message="correct", workloads=(near,)))
    assert text.splitlines()[0] == "untimed: correct" and "rel_norm at most 0.003 of 0.012" in text
