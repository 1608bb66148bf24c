"""Replies that providers really sent: what is executed, and what goes back. The inputs are in cases/."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from d2k_agent.agent import StopReason
from d2k_agent.agent.replies import plain_json, repair, requested_calls
from d2k_agent.models import ScriptedModel
from d2k_agent.records import RunFolder, ToolFinished, Trace, read_trace
from tests.agent.scene import call, drive, new_run, reply

CASES = Path(__file__).parent / "cases"


def replies_of(case: str) -> list[dict[str, Any]]:
    """The assistant messages of a recorded case, as a script."""
    (path,) = CASES.glob(f"{case}_*.json")
    replies = []
    for response in json.loads(path.read_text())["responses"]:
        choices = response["body"]["choices"]
        choice = choices[0] if choices else {"message": {"content": None}, "finish_reason": None}
        replies.append({**choice["message"], "finish_reason": choice["finish_reason"]})
    return replies


def play(run: RunFolder, replies: list[dict[str, Any]]) -> Trace:
    drive(run, ScriptedModel(replies))
    return read_trace(run.path)


def results(trace: Trace) -> list[ToolFinished]:
    return [event for event in trace.events if isinstance(event, ToolFinished)]


def assert_answered(trace: Trace) -> None:
    """Every call of the conversation has exactly one answer, right behind its message, and nothing is empty."""
    waiting: list[str] = []
    for message in trace.messages():
        if message["role"] == "tool":
            assert message["tool_call_id"] == waiting.pop(0)
            continue
        assert not waiting
        assert message.get("tool_calls") != []
        waiting = [entry["id"] for entry in message.get("tool_calls", ())]
        assert message.get("content") or waiting
        for entry in message.get("tool_calls", ()):
            assert isinstance(json.loads(entry["function"]["arguments"]), dict)
    assert not waiting


def test_empty_arguments_are_no_arguments(tmp_path: Path) -> None:
    run = new_run(tmp_path / "r")

    trace = play(run, replies_of("B05a"))

    assert [event.status for event in results(trace)] == ["ok"]
    assert len(trace.submissions) == 1
    assert_answered(trace)


def test_broken_arguments_are_one_error_and_change_nothing(tmp_path: Path) -> None:
    run = new_run(tmp_path / "r")

    trace = play(run, replies_of("B05b"))

    (result,) = results(trace)
    assert (result.call_id, result.status, result.executed) == ("call_1", "error", False)
    assert "not a JSON object" in result.text and "line" in result.text
    assert (run.workspace / "solution.py").read_text() == "# template\n"
    assert_answered(trace)


def test_unknown_tools_and_wrong_types_are_errors_and_the_run_goes_on(tmp_path: Path) -> None:
    trace = play(new_run(tmp_path / "r"), [*replies_of("B05d"), reply(call("submit"))])

    first, second, _ = results(trace)
    assert first.status == second.status == "error"
    assert "str_replace_editor" in first.text and "command" in second.text
    assert len(trace.submissions) == 1
    assert_answered(trace)


def test_parallel_calls_are_answered_in_order(tmp_path: Path) -> None:
    trace = play(new_run(tmp_path / "r"), replies_of("B06a"))

    assert [(event.call_id, event.status) for event in results(trace)] == [
        ("call_1", "ok"),
        ("call_2", "ok"),
        ("call_3", "error"),
    ]
    assert trace.turns == 1


def test_missing_and_repeated_ids_all_run_under_ids_of_their_own(tmp_path: Path) -> None:
    run = new_run(tmp_path / "r")

    trace = play(run, replies_of("B06b"))

    commands = (run.workspace / "commands.txt").read_text().splitlines()
    assert commands == ["echo one", "echo two", "echo three", "echo four", "echo five"]
    assert len({event.call_id for event in results(trace)}) == 5
    assert_answered(trace)


def test_one_call_told_twice_is_executed_once(tmp_path: Path) -> None:
    """The same id, name and arguments. Without an id, or under another one, nobody knows that it is the same call."""
    run = new_run(tmp_path / "r")
    given = [("call_1", "echo one"), ("call_1", "echo one"), ("", "echo one"), ("call_2", "echo one")]
    calls = [
        {"id": name, "type": "function", "function": {"name": "bash", "arguments": json.dumps({"command": command})}}
        for name, command in given
    ]

    trace = play(run, [{"tool_calls": calls}])

    assert [result.executed for result in results(trace)] == [True, False, True, True]
    assert "the same call twice" in results(trace)[1].text
    assert (run.workspace / "commands.txt").read_text().splitlines() == ["echo one"] * 3
    assert_answered(trace)


def test_ids_that_repeat_from_turn_to_turn_are_told_apart(tmp_path: Path) -> None:
    same = {"tool_calls": [{"id": "0", "type": "function", "function": {"name": "submit", "arguments": "{}"}}]}

    trace = play(new_run(tmp_path / "r"), [same, same, same])

    assert len({event.call_id for event in results(trace)}) == 3
    assert len(trace.submissions) == 3


def test_a_call_cut_by_the_output_limit_is_not_executed(tmp_path: Path) -> None:
    run = new_run(tmp_path / "r")

    trace = play(run, replies_of("B07a"))

    (result,) = results(trace)
    assert not result.executed and "limit on output tokens" in result.text
    assert (run.workspace / "solution.py").read_text() == "# template\n"
    assert_answered(trace)


def test_with_a_cut_reply_the_calls_before_the_last_are_executed(tmp_path: Path) -> None:
    cut = {**reply(call("bash", command="a"), call("submit")), "finish_reason": "length"}

    trace = play(new_run(tmp_path / "r"), [cut])

    assert [event.executed for event in results(trace)] == [True, False]
    assert trace.submissions == ()


def test_replies_without_calls_end_in_nudges_and_no_turn(tmp_path: Path) -> None:
    replies = replies_of("B08")
    for first in range(len(replies)):
        run = new_run(tmp_path / str(first))
        outcome = drive(run, ScriptedModel([*replies[first:], *replies[:first]]))
        trace = read_trace(run.path)
        assert outcome.stop_reason is StopReason.FINISHED_BY_MODEL
        assert (trace.turns, trace.totals.replies) == (0, 3)
        assert_answered(trace)


def test_everything_else_in_a_message_is_kept() -> None:
    message = {
        "role": "assistant",
        "content": None,
        "thinking_blocks": [{"type": "thinking", "thinking": "hm", "signature": "c2ln"}],
        "tool_calls": [{"id": "a", "index": 0, "function": {"name": "submit", "arguments": "{}", "x": 1}}],
    }

    repaired = repair(message, "tool_calls", 1, set())

    expected = {**message, "tool_calls": [{**message["tool_calls"][0], "type": "function"}]}  # type: ignore[index, dict-item]
    assert repaired.message == expected
    assert repaired.repairs == [] and repaired.refused == {}


@pytest.mark.parametrize("arguments", ["[1]", "null", "3", '"x"', "{", '{"a": NaN}', "[" * 5000])
def test_arguments_that_are_no_object_are_refused(arguments: str) -> None:
    message = {"tool_calls": [{"id": "a", "function": {"name": "submit", "arguments": arguments}}]}

    repaired = repair(message, None, 1, set())

    (requested,) = requested_calls(repaired.message, repaired.refused)
    assert requested.refusal is not None
    assert requested.arguments == {"unparsed": arguments}, "the text is not lost"


def test_text_that_no_encoding_has_and_numbers_that_json_lacks_are_replaced() -> None:
    assert plain_json({"a": "x\udcff", "b": "\ud83d\ude00", "c": [float("nan"), 1e400]}) == {
        "a": "x\ufffd",
        "b": "\U0001f600",
        "c": [None, None],
    }


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
CALL = JSON | st.fixed_dictionaries(
    {},
    optional={
        "id": st.sampled_from(["a", "b", "", None, 3, "call_7_0"]),
        "function": JSON | st.fixed_dictionaries({}, optional={"name": JSON, "arguments": JSON}),
    },
)


@given(
    st.fixed_dictionaries(
        {}, optional={"role": JSON, "content": JSON, "tool_calls": JSON | st.lists(CALL, max_size=40)}
    ),
    st.sampled_from(["stop", "length", None, "tool_calls"]),
)
def test_any_reply_can_be_sent_back_and_repairing_it_again_changes_nothing(message: Any, finish: str | None) -> None:
    taken = {"a"}

    repaired = repair(message, finish, 7, taken)

    calls = requested_calls(repaired.message, repaired.refused)
    ids = [item.id for item in calls]
    assert len(set(ids)) == len(ids) and not taken & set(ids)
    assert repaired.message["role"] == "assistant"
    assert calls or repaired.message["content"]
    json.dumps(repaired.message, allow_nan=False).encode()
    assert repair(repaired.message, None, 7, taken).message == repaired.message
