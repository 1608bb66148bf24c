"""The table of the corpus at the end of a run of the tests, where the corpus was judged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.evaluator.corpus import LEFT_TO_GPU, table

if TYPE_CHECKING:
    import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Prints what the files of tests/cheats came to without static rules."""
    reports = [report for kind in ("passed", "failed") for report in terminalreporter.getreports(kind)]
    rows = [value for report in reports for name, value in report.user_properties if name == "corpus"]
    if rows:
        terminalreporter.section("tests/cheats without the static rules")
        for line in table(rows):
            terminalreporter.write_line(line)
        left = sorted(set(LEFT_TO_GPU) - {item["name"] for item in rows})
        if left:
            terminalreporter.write_line(f"left to a GPU (make gpu-cheats): {', '.join(left)}")
