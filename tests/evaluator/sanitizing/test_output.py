"""What compute-sanitizer printed on an H200 (memcheck), and what its documentation has it print (the other two)."""

from __future__ import annotations

from pathlib import Path

from d2k_agent.contract import SanitizerError
from d2k_agent.evaluator.sanitizing.output import MOST_KINDS, Totals, read_errors, read_totals

CASES = Path(__file__).with_name("cases")
OUT_OF_BOUNDS = (CASES / "sanitizer_memcheck_out_of_bounds.txt").read_text()


def test_a_write_out_of_bounds_is_told_once_with_its_line_and_without_addresses() -> None:
    (error,) = read_errors(OUT_OF_BOUNDS, "s.py")
    assert error == SanitizerError(
        kind="Invalid __global__ write of size 16 bytes",
        kernel="oob",
        line=4,
        details=(
            "by thread (0,0,0) in block (8,0,0)",
            "Access is out of bounds",
            "and is 8,421,377 bytes after the nearest allocation of size 4,194,304 bytes",
        ),
        printed=3,
    )
    assert read_totals(OUT_OF_BOUNDS) == Totals(186146, 0)


def test_a_line_of_another_file_is_none_of_the_solutions() -> None:
    (error,) = read_errors(OUT_OF_BOUNDS)
    assert error.line is None and error.kernel == "oob"


def test_a_clean_run_says_so_itself() -> None:
    clean = (CASES / "sanitizer_clean.txt").read_text()
    assert read_errors(clean) == ()
    assert read_totals(clean) == Totals(0, 0)
    assert read_totals("========= COMPUTE-SANITIZER\ndone\n") is None


def test_races_name_both_accesses() -> None:
    text = (CASES / "racecheck_documented.txt").read_text()
    first, second = read_errors(text)
    assert (first.kind, first.kernel, first.line) == ("Race reported between Write access", "reduce", 21)
    assert first.details == (
        "and Read access in solution.py:22 [4 hazards]",
        "and Write access in solution.py:21 [5 hazards]",
    )
    assert second.line == 30
    assert read_totals(text) == Totals(1, 1)


def test_what_happens_in_a_library_is_told_at_the_line_that_calls_it() -> None:
    text = (CASES / "initcheck_documented.txt").read_text()
    (error,) = read_errors(text)
    assert (error.kind, error.line, error.printed) == ("Uninitialized __global__ memory read of size 4 bytes", 9, 2)
    assert error.details == ("by thread (31,0,0) in block (1,0,0)", "Access")


def test_many_kinds_stay_few() -> None:
    text = "".join(
        f"========= Invalid read of size {n}\n=========     at k+0x1 in solution.py:{n}\n" for n in range(40)
    )
    assert len(read_errors(text)) == MOST_KINDS
