"""What a check of memory found, in a few lines."""

from __future__ import annotations

from d2k_agent.contract import JobKind, SanitizerCheck, SanitizerError, SanitizerReport, VerdictStatus
from d2k_agent.reports.brief_text import brief_answer
from d2k_agent.reports.sanitizer_text import sanitizer_text
from d2k_agent.reports.verdict_text import answer_text
from tests.reports.test_verdict_text import verdict

CLEAN = SanitizerReport(SanitizerCheck.INITCHECK, "compute-sanitizer 2025.3.1", ("smoke_a", "smoke_b"), 0)
WRONG = SanitizerReport(
    SanitizerCheck.MEMCHECK,
    "compute-sanitizer",
    ("smoke_a",),
    186146,
    first=(
        SanitizerError("Invalid __global__ write of size 16 bytes", "oob", 4, ("Access is out of bounds",), 100),
        SanitizerError("Invalid __shared__ read of size 4 bytes", None, None),
    ),
    notes=("the tool did not come to its end: there may be more",),
)


def test_nothing_found_says_what_was_looked_for_and_where() -> None:
    assert sanitizer_text(CLEAN) == (
        "initcheck: nothing found, in one call of run() on each of smoke_a, smoke_b (compute-sanitizer 2025.3.1). "
        "It looked for reads of global memory that nothing was written to."
    )


def test_errors_are_counted_and_the_first_of_each_kind_is_told() -> None:
    assert sanitizer_text(WRONG).splitlines() == [
        "memcheck: 186,146 errors, in one call of run() on each of smoke_a (compute-sanitizer).",
        "- Invalid __global__ write of size 16 bytes, in oob, solution.py line 4 (100 printed)",
        "  Access is out of bounds",
        "- Invalid __shared__ read of size 4 bytes, in an unnamed kernel",
        "note: the tool did not come to its end: there may be more",
    ]


def test_warnings_alone_are_not_clean() -> None:
    hazard = SanitizerReport(SanitizerCheck.RACECHECK, "t", ("a",), 0, warnings=2)
    assert sanitizer_text(hazard).startswith("racecheck: 0 errors and 2 warnings")


def test_it_is_the_answer_of_its_job_in_every_wording() -> None:
    for answer in (answer_text, brief_answer):
        assert answer(JobKind.SANITIZE, verdict(VerdictStatus.UNTIMED, sanitizer=WRONG)) == sanitizer_text(WRONG)
