"""The embedded default: a hand-written walk through Muon, and its recording."""

from __future__ import annotations

from typing import Any

import pytest

from d2k_agent.catalog import samples_dir, tools_dir
from d2k_agent.evaluator.rules import check_rules
from d2k_agent.models import ScriptedModel, load_script, script_name
from d2k_agent.records import ModelReplied, ToolFinished, Trace, VerdictReached, read_trace
from d2k_agent.toolbox import load_tools

FOLDER = samples_dir() / "muon"


@pytest.fixture(scope="module")
def replies() -> list[dict[str, Any]]:
    return load_script(FOLDER / "script.json")


@pytest.fixture(scope="module")
def trace() -> Trace:
    return read_trace(FOLDER)


def solutions(replies: list[dict[str, Any]]) -> list[str]:
    """The text of solution.py after each write and edit, with every edit checked to fit."""
    texts: list[str] = []
    for call in (call for reply in replies for call in reply["tool_calls"]):
        arguments = call["arguments"]
        if call["name"] == "write":
            texts.append(arguments["content"])
        elif call["name"] == "edit":
            assert texts[-1].count(arguments["old"]) == 1
            texts.append(texts[-1].replace(arguments["old"], arguments["new"]))
    return texts


def test_it_has_enough_turns_and_says_that_it_is_a_script(replies: list[dict[str, Any]]) -> None:
    assert len(replies) >= 8
    assert all(reply["content"] and reply["tool_calls"] for reply in replies)
    assert script_name(FOLDER / "script.json").startswith("scripted/")


def test_it_uses_every_tool_as_the_tool_is_described(replies: list[dict[str, Any]]) -> None:
    tools = load_tools(tools_dir())
    calls = [call for reply in replies for call in reply["tool_calls"]]
    assert {call["name"] for call in calls} == set(tools)
    for call in calls:
        parameters = tools[call["name"]].parameters
        assert set(call["arguments"]) <= set(parameters.get("properties", {}))
        assert set(parameters.get("required", ())) <= set(call["arguments"])


def test_its_candidates_keep_the_rules(replies: list[dict[str, Any]]) -> None:
    texts = solutions(replies)
    assert len(texts) == 4
    for text in texts:
        assert check_rules(text, {}) == ()


def test_the_recording_holds_the_replies_of_the_script(replies: list[dict[str, Any]], trace: Trace) -> None:
    model, said = ScriptedModel(replies), [event for event in trace.events if isinstance(event, ModelReplied)]
    assert len(said) == len(replies)
    messages: list[dict[str, Any]] = []
    for event in said:
        messages.append(model.complete(messages, []).message)
        assert event.message == messages[-1]


def test_it_goes_from_a_compile_error_over_a_wrong_answer_to_two_correct_candidates(trace: Trace) -> None:
    first_compile = next(e for e in trace.events if isinstance(e, ToolFinished) and e.name == "compile")
    assert "power of 2" in first_compile.text
    verdicts = [event.verdict.status for event in trace.events if isinstance(event, VerdictReached)]
    assert verdicts[0] == "incorrect"
    assert len(verdicts) == 3
    assert set(verdicts[1:]) <= {"untimed", "passed"}


def test_nobody_invented_tokens_or_a_cost(trace: Trace) -> None:
    for event in trace.events:
        if isinstance(event, ModelReplied):
            assert event.cost_usd is None
            assert not event.usage.known
