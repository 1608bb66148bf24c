"""The embedded default: a hand-written walk through Muon, and its recording."""

from __future__ import annotations

from typing import Any

import pytest

from d2k_agent.app.scoring import subject_of
from d2k_agent.catalog import samples_dir, tools_dir
from d2k_agent.config import Settings
from d2k_agent.contract import source_sha256
from d2k_agent.evaluator.rules import check_rules
from d2k_agent.models import ScriptedModel, load_script, script_name
from d2k_agent.records import ModelReplied, RunFolder, StopReason, ToolFinished, Trace, VerdictReached, read_trace
from d2k_agent.toolbox import load_tools

FOLDER = samples_dir() / "muon"


@pytest.fixture(scope="module")
def replies() -> list[dict[str, Any]]:
    return load_script(FOLDER / "script.json")


@pytest.fixture(scope="module")
def trace() -> Trace:
    return read_trace(FOLDER)


def calls(replies: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Every tool call, in order."""
    return [call for reply in replies for call in reply.get("tool_calls", ())]


def solutions(replies: list[dict[str, Any]]) -> list[str]:
    """The text of solution.py after each write and edit, with every edit checked to fit."""
    texts: list[str] = []
    for call in calls(replies):
        arguments = call["arguments"]
        if call["name"] == "write":
            texts.append(arguments["content"])
        elif call["name"] == "edit":
            assert texts[-1].count(arguments["old"]) == 1
            texts.append(texts[-1].replace(arguments["old"], arguments["new"]))
    return texts


def test_it_has_enough_turns_and_says_that_it_is_a_script(replies: list[dict[str, Any]]) -> None:
    assert len(replies) >= 8
    assert all(reply["content"] for reply in replies)
    assert [bool(reply.get("tool_calls")) for reply in replies] == [True] * (len(replies) - 3) + [False] * 3
    assert script_name(FOLDER / "script.json").startswith("scripted/")


def test_it_uses_every_tool_as_the_tool_is_described(replies: list[dict[str, Any]]) -> None:
    tools = {name: spec for name, spec in load_tools(tools_dir()).items() if not spec.on_request}
    assert {call["name"] for call in calls(replies)} == set(tools)
    for call in calls(replies):
        parameters = tools[call["name"]].parameters
        assert set(call["arguments"]) <= set(parameters.get("properties", {}))
        assert set(parameters.get("required", ())) <= set(call["arguments"])


def test_its_candidates_keep_the_rules(replies: list[dict[str, Any]]) -> None:
    texts = solutions(replies)
    assert len(texts) == 5
    for text in texts:
        assert check_rules(text, {}) == ()


def test_the_recording_holds_the_replies_of_the_script(replies: list[dict[str, Any]], trace: Trace) -> None:
    model, said = ScriptedModel(replies), [event for event in trace.events if isinstance(event, ModelReplied)]
    assert len(said) == len(replies)
    messages: list[dict[str, Any]] = []
    for event in said:
        messages.append(model.complete(messages, []).message)
        assert event.message == messages[-1]


def test_it_goes_from_a_compile_error_over_a_wrong_answer_to_three_correct_candidates(trace: Trace) -> None:
    first_compile = next(e for e in trace.events if isinstance(e, ToolFinished) and e.name == "compile")
    assert "power of 2" in first_compile.text
    verdicts = [event.verdict for event in trace.events if isinstance(event, VerdictReached)]
    first, wrong, second, third = verdicts
    assert {first.status, second.status, third.status} <= {"untimed", "passed"}
    assert wrong.status == "incorrect"
    assert [item.label for item in wrong.workloads if item.status == "incorrect"] == ["hidden.shifted_mean"]
    assert trace.finished is not None and trace.finished.stop_reason is StopReason.FINISHED_BY_MODEL


def test_it_keeps_the_candidates_that_were_handed_in(replies: list[dict[str, Any]], trace: Trace) -> None:
    handed_in = {submission.sha256 for submission in trace.submissions}
    assert handed_in == {source_sha256(text) for text in solutions(replies)[1:]}
    assert {path.stem: path.suffix for path in (FOLDER / "candidates").iterdir()} == dict.fromkeys(handed_in, ".py")
    assert all(source_sha256(RunFolder(FOLDER).candidate(sha256)) == sha256 for sha256 in handed_in)


def test_its_winner_is_the_last_candidate_and_can_be_scored(replies: list[dict[str, Any]]) -> None:
    subject = subject_of(RunFolder(FOLDER), Settings(), "muon")
    assert subject.candidate == solutions(replies)[-1]


def test_nobody_invented_tokens_or_a_cost(trace: Trace) -> None:
    for event in trace.events:
        if isinstance(event, ModelReplied):
            assert event.cost_usd is None
            assert not event.usage.known


def test_it_was_recorded_on_a_gpu_and_every_improvement_is_measured(trace: Trace) -> None:
    speedups = [submission.geomean_speedup for submission in trace.submissions if submission.verdict.status == "passed"]
    assert len(speedups) == 3 and None not in speedups
    assert speedups == sorted(set(speedups))
    (profile,) = [event for event in trace.events if isinstance(event, ToolFinished) and event.name == "profile"]
    assert profile.data["outcome"] == "profiled"
    assert trace.confirmed is not None and trace.confirmed.confirmed
    assert trace.finished is not None and trace.finished.selection is not None
    assert trace.finished.selection.sha256 == trace.submissions[-1].sha256
