"""What the conversation holds is named, not repeated."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from d2k_agent.agent.repeats import LEAST_CHARS, Told
from d2k_agent.records import Event, ModelCallStarted, ToolFinished, read_trace
from d2k_agent.toolbox import HostAnswer
from tests.agent.scene import call, drive, new_run, reply, scripted, toolbox

KERNELS = "product regs=126 " * 20
REPORT = f"compiles for b200\n\n{KERNELS}"


def answer(turn: int, name: str, text: str) -> ToolFinished:
    return ToolFinished(turn=turn, index=0, call_id=f"c{turn}", name=name, status="ok", text=text)


def test_a_passage_of_an_evaluators_answer_is_named_where_it_was_told() -> None:
    told = Told()
    told.take(answer(3, "compile", REPORT))
    assert told.without_repeats("submit", f"passed 2x\n\n{REPORT}") == (
        "passed 2x\n\ncompiles for b200\n\n[as in the answer to compile, turn 3]"
    )


def test_a_file_is_one_passage_and_is_never_named_in_part() -> None:
    told = Told()
    told.take(answer(1, "compile", REPORT))
    assert told.without_repeats("read", f"my notes\n\n{KERNELS}") == f"my notes\n\n{KERNELS}"
    told.take(answer(2, "read", KERNELS))
    assert told.without_repeats("read", KERNELS) == "[as in the answer to compile, turn 1]"


def test_short_passages_and_changed_ones_are_told() -> None:
    told = Told()
    short, long = "x" * (LEAST_CHARS - 1), "y" * LEAST_CHARS
    told.take(answer(1, "bash", short))
    told.take(answer(2, "bash", long))
    assert told.without_repeats("bash", short) == short
    assert told.without_repeats("bash", long + "z") == long + "z"
    assert told.without_repeats("bash", long) == "[as in the answer to bash, turn 2]"


def test_what_does_not_stand_whole_any_more_is_told_again() -> None:
    told = Told()
    told.take(answer(1, "compile", REPORT))
    told.forget({"c1"})
    assert told.without_repeats("compile", REPORT) == REPORT


def test_a_run_of_the_brief_wording_repeats_nothing_and_one_of_tables_does(tmp_path: Path) -> None:
    def compiling(arguments: Mapping[str, Any]) -> HostAnswer:
        return HostAnswer("ok", REPORT)

    answers = {}
    for wording in ("brief", "tables"):
        run = new_run(tmp_path / wording, wording=wording)
        drive(run, scripted([reply(call("compile")), reply(call("compile"))]), toolbox(run, compile=compiling))
        events = read_trace(run.path).events
        answers[wording] = [event.text for event in events if isinstance(event, ToolFinished)]
    assert answers["tables"] == [REPORT, REPORT]
    assert answers["brief"] == [REPORT, "compiles for b200\n\n[as in the answer to compile, turn 1]"]


GUIDANCE = "Fold the product into one pass. " * 20 + "\n"


def test_guidance_stands_in_the_opening_before_all_that_varies_and_is_named_when_it_is_read(tmp_path: Path) -> None:
    opening, answers = {}, {}
    for wording in ("brief", "tables"):
        run = new_run(tmp_path / wording, wording=wording)
        (run.workspace / "guidance.json").write_text(GUIDANCE)
        drive(run, scripted([reply(call("read", path="guidance.json"))]))
        trace = read_trace(run.path)
        opening[wording] = trace.messages()[1]["content"]
        answers[wording] = [event.text for event in trace.events if isinstance(event, ToolFinished)]
    assert opening["brief"].endswith(GUIDANCE) and "it stands below" in opening["brief"]
    assert answers["brief"] == ["[as in the first message]"]
    assert GUIDANCE not in opening["tables"] and "read it before you design" in opening["tables"]
    assert answers["tables"] == [GUIDANCE]


def test_a_resumed_run_knows_what_its_opening_told(tmp_path: Path) -> None:
    run = new_run(tmp_path / "r", wording="brief")
    (run.workspace / "guidance.json").write_text(GUIDANCE)

    def at_the_first_request(event: Event) -> None:
        if isinstance(event, ModelCallStarted):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        drive(run, scripted([]), progress=at_the_first_request)
    drive(run, scripted([reply(call("read", path="guidance.json"))]))
    (answer,) = [event.text for event in read_trace(run.path).events if isinstance(event, ToolFinished)]
    assert answer == "[as in the first message]"
