"""The hot lines of a source page. The page is made by the documentation: no recorded one was at hand."""

from __future__ import annotations

import pytest

from d2k_agent.evaluator.profiling import metrics
from d2k_agent.evaluator.profiling.source import MOST_LINES, read_hot_lines
from tests.evaluator.profiling.fakes import CASES

PAGE = (CASES / "source_documented.csv").read_text()


def test_lines_of_the_solution_by_their_part_of_the_samples() -> None:
    """0x40 stands in two tables and counts once: 10,000 samples by address."""
    (first, second, third) = read_hot_lines(PAGE)["mm"]
    assert (first.line, first.share) == (12, pytest.approx(0.5))
    assert first.stall == "long scoreboard (waiting for global memory)"
    assert first.text == 'a = tl.load(a_ptrs, mask="x" < k, other=0.0)'
    assert (second.line, second.share) == (14, pytest.approx(0.2))
    assert second.stall == "wait (fixed latency between dependent instructions)"
    assert (third.line, third.share, third.stall) == (20, pytest.approx(0.1), None)


def test_a_kernel_that_was_looked_into_twice_is_added_up() -> None:
    twice = read_hot_lines(PAGE + PAGE)["mm"]
    assert [line.share for line in twice] == [line.share for line in read_hot_lines(PAGE)["mm"]]


def test_a_kernel_without_lines_of_the_solution_is_left_out() -> None:
    assert list(read_hot_lines(PAGE)) == ["mm"]
    assert read_hot_lines(PAGE, "other.py") == {}
    assert read_hot_lines("") == {}


def test_many_lines_stay_few() -> None:
    rows = "".join(f'"{line}","x{"y" * 500}","-","-","9"\n' for line in range(50, 90))
    page = f'"File Path","solution.py"\n"Function Name","k"\n"Line No","Source","Address","Source","# Samples"\n{rows}'
    lines = read_hot_lines(page)["k"]
    assert len(lines) == MOST_LINES
    assert all(len(line.text) <= 100 and line.share == pytest.approx(1 / 40) for line in lines)


SAMPLED = (
    "barrier branch_resolving dispatch_stall drain imc_miss lg_throttle long_scoreboard math_pipe_throttle membar "
    "mio_throttle misc no_instructions not_selected short_scoreboard sleeping tex_throttle wait warpgroup_arrive"
)
"""The stalls that a profile recorded on an H200 has samples of."""


@pytest.mark.parametrize("stall", SAMPLED.split())
def test_every_stall_that_is_sampled_on_an_h200_has_words(stall: str) -> None:
    column = f"smsp__pcsamp_warps_issue_stalled_{stall}"
    page = (
        f'"File Path","solution.py"\n"Function Name","k"\n"Line No","Source","# Samples","{column}"\n"1","x","9","9"\n'
    )
    (line,) = read_hot_lines(page)["k"]
    assert line.stall in metrics.STALLS.values()
