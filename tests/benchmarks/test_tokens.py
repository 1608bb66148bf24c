"""The token benchmark reads the sample run back: what it words anew is what was recorded."""

from __future__ import annotations

import runpy
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.sample.rewording import read_compile, worded
from d2k_agent.catalog import samples_dir
from d2k_agent.models.tokens import count_tokens
from d2k_agent.records import ToolFinished, Trace, read_trace
from d2k_agent.reports.compile_text import compile_text
from tests.reports.curved import PRICE

FILE = Path(__file__).parents[2] / "benchmarks" / "tokens.py"


@pytest.fixture(scope="module")
def benchmark() -> dict[str, Any]:
    return runpy.run_path(str(FILE))


@pytest.fixture(scope="module")
def trace() -> Trace:
    return read_trace(samples_dir() / "muon")


def test_the_evaluators_answers_take_less_than_half_of_the_tokens(trace: Trace) -> None:
    tokens: Counter[tuple[str, str]] = Counter()
    for event in trace.events:
        if isinstance(event, ToolFinished) and event.name in ("submit", "compile", "profile"):
            for wording in ("tables", "brief"):
                text = worded(trace, event, wording)
                assert wording == "brief" or text == event.text
                tokens[event.name, wording] += count_tokens(text)
    assert tokens["compile", "brief"] < 0.4 * tokens["compile", "tables"]
    assert tokens["submit", "brief"] < 0.4 * tokens["submit", "tables"]
    assert tokens["profile", "brief"] < 0.7 * tokens["profile", "tables"]


def test_a_report_of_another_version_is_refused(trace: Trace) -> None:
    report = next(e.text for e in trace.events if isinstance(e, ToolFinished) and e.name == "compile" and e.turn == 5)
    assert len(read_compile(report).kernels) == 18
    with pytest.raises(ValueError, match="not one of this version's"):
        read_compile(f"{report}\n")
    with pytest.raises(ValueError, match="begins like this"):
        read_compile("It compiles")


def test_a_report_with_warnings_and_unread_counts_is_read_whole(trace: Trace) -> None:
    recorded = next(e.text for e in trace.events if isinstance(e, ToolFinished) and e.name == "compile" and e.turn == 5)
    first, *others = read_compile(recorded).kernels
    unread = replace(first, registers=None, spill_store_bytes=None, spill_load_bytes=None)
    warnings = ("kernel f (line 41) loads 2 bytes at a time, where 16 would go.", "kernel g spills 44 KB")
    report = replace(read_compile(recorded), kernels=(unread, *others), warnings=warnings)
    assert read_compile(compile_text(report)) == report
    with pytest.raises(ValueError, match="not one of this version's"):
        read_compile(compile_text(replace(report, warnings=("many",) * 9)))


def test_the_paper_has_four_tools_and_steps_without_calls_are_left_out(benchmark: dict[str, Any], trace: Trace) -> None:
    steps = benchmark["steps_of"](trace)
    assert len(benchmark["under"]("default", steps)) == len(steps) == 15
    kept = benchmark["under"]("paper", steps)
    names = {call["function"]["name"] for step in kept for call in step.message.get("tool_calls", ())}
    assert names == {"read", "write", "bash", "submit"}
    assert all(len(step.answers) == len(step.message.get("tool_calls", ())) for step in kept)


def test_a_run_has_the_turns_that_were_asked_for_and_the_tables_say_what_is_simulated(
    benchmark: dict[str, Any], trace: Trace
) -> None:
    prices = {"anthropic/claude-opus-4-8": PRICE}
    two = replace(trace.run.config, turns=2)
    short = replace(trace, run=trace.run.model_copy(update={"config": two}))
    sample, longer = (list(benchmark["played_by_all"](short, prices, turns)) for turns in (None, 3))
    assert [played.turns for played in (*sample, *longer)] == [2, 2, 2, 3, 3, 3]
    text = benchmark["tables"](short, prices, sample, longer)
    assert "tokens are counted on this machine, which no provider does alike" in text and "a simulated one" in text
