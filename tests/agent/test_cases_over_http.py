"""What providers really answered, played over HTTP into the whole loop: client, repair, tools and record.

The answers are those of tests/models/cases and tests/agent/cases; steps of our own stand where there is no case.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from d2k_agent.agent import Outcome, StopReason
from d2k_agent.config import ModelOptions
from d2k_agent.errors import ModelError
from d2k_agent.models import Quirks
from d2k_agent.models.litellm_client import LiteLLMModel
from d2k_agent.models.retry import RetryPolicy
from d2k_agent.records import ModelCallFailed, ModelReplied, Nudged, RunFolder, ToolFinished, Trace, read_trace
from tests.agent.scene import drive, new_run
from tests.models.answers import counted, said
from tests.models.provider import KEY, Provider, serving

FOLDERS = [Path(__file__).parent / "cases", Path(__file__).parents[1] / "models" / "cases"]
DONE = said("All done.", counted(50, cached_tokens=0))
TEMPLATE = "# template\n"


@dataclass
class Played:
    """A run over HTTP: what was asked, and what was recorded."""

    run: RunFolder
    provider: Provider
    notices: list[str]
    outcome: Outcome | None

    @property
    def trace(self) -> Trace:
        return read_trace(self.run.path)

    @property
    def results(self) -> list[ToolFinished]:
        return [event for event in self.trace.events if isinstance(event, ToolFinished)]

    @property
    def replies(self) -> list[ModelReplied]:
        return [event for event in self.trace.events if isinstance(event, ModelReplied)]

    @property
    def solution(self) -> str:
        return (self.run.workspace / "solution.py").read_text()


Play = Callable[..., Played]


@pytest.fixture
def play(tmp_path: Path) -> Iterator[Play]:
    with ExitStack() as running:

        def playing(steps: list[dict[str, Any]], name: str = "openai/d2k-test-1", **options: Any) -> Played:
            quirks = options.pop("quirks", None)
            provider = running.enter_context(serving(steps))
            notices: list[str] = []
            base = provider.url + ("" if name.startswith("anthropic/") else "/v1")
            model = LiteLLMModel(
                name,
                ModelOptions(api_base=base, **{"timeout_s": 20.0, **options}),
                {"OPENAI_API_KEY": KEY, "ANTHROPIC_API_KEY": KEY},
                quirks=quirks,
                policy=RetryPolicy(attempts=4),
                wait=lambda seconds: None,
                notice=notices.append,
            )
            run = new_run(tmp_path / f"run{provider.url[-5:]}")
            try:
                outcome = drive(run, model)
            except ModelError as error:
                notices.append(str(error))
                outcome = None
            return Played(run, provider, notices, outcome)

        yield playing


def case(name: str) -> list[dict[str, Any]]:
    (path, *_) = itertools.chain.from_iterable(folder.glob(f"{name}_*.json") for folder in FOLDERS)
    return list(json.loads(path.read_text())["responses"])


def assert_each_call_answered_once(provider: Provider) -> None:
    """In the last request every call is followed by its results, in order, and each id is used once."""
    used: list[str] = []
    waiting: list[str] = []
    for message in provider.bodies[-1]["messages"]:
        if message["role"] == "tool":
            assert message["tool_call_id"] == waiting.pop(0)
            continue
        assert not waiting
        waiting = [call["id"] for call in message.get("tool_calls") or ()]
        used += waiting
    assert not waiting and len(set(used)) == len(used)


def test_empty_arguments_submit(play: Play) -> None:
    played = play([*case("B05a"), DONE])
    assert [(event.name, event.status) for event in played.results] == [("submit", "ok")]
    assert len(played.trace.submissions) == 1


def test_broken_arguments_are_answered_once_and_change_no_file(play: Play) -> None:
    played = play([*case("B05b"), DONE])
    (result,) = played.results
    assert (result.status, result.executed) == ("error", False)
    assert played.solution == TEMPLATE
    assert_each_call_answered_once(played.provider)
    assert "not a JSON object" in played.provider.bodies[1]["messages"][-1]["content"]


@pytest.mark.parametrize(
    "arguments",
    ['{"path": "solution.py", "content": "a" + "b"}', '{"path": "solution.py", "content": "x"}{', '"{}"', "[]", "NaN"],
)
def test_other_broken_arguments(arguments: str, play: Play) -> None:
    call = {"id": "call_1", "type": "function", "function": {"name": "write", "arguments": arguments}}
    played = play([said("", counted(10), tool_calls=[call]), DONE])
    assert [(event.status, event.executed) for event in played.results] == [("error", False)]
    assert played.solution == TEMPLATE
    assert_each_call_answered_once(played.provider)


def test_an_unknown_tool_and_wrong_types_are_errors_and_the_run_goes_on(play: Play) -> None:
    played = play([*case("B05d"), DONE])
    assert [event.status for event in played.results] == ["error", "error"]
    assert_each_call_answered_once(played.provider)
    assert played.outcome is not None and played.outcome.stop_reason is StopReason.FINISHED_BY_MODEL


def test_three_calls_are_one_turn_with_three_results_in_order(play: Play) -> None:
    played = play([*case("B06a"), DONE])
    assert [(event.call_id, event.status) for event in played.results] == [
        ("call_1", "ok"),
        ("call_2", "ok"),
        ("call_3", "error"),
    ]
    assert played.trace.turns == 1
    assert_each_call_answered_once(played.provider)


def test_repeated_and_missing_ids_all_run_once(play: Play) -> None:
    played = play([*case("B06b"), DONE])
    commands = (played.run.workspace / "commands.txt").read_text().splitlines()
    assert commands == ["echo one", "echo two", "echo three", "echo four", "echo five"]
    assert_each_call_answered_once(played.provider)


def test_a_call_that_was_cut_is_not_executed_and_the_model_is_told(play: Play) -> None:
    played = play([*case("B07a"), DONE])
    (result,) = played.results
    assert not result.executed
    assert played.solution == TEMPLATE
    assert "limit on output tokens" in played.provider.bodies[1]["messages"][-1]["content"]
    assert_each_call_answered_once(played.provider)


def test_a_stream_that_breaks_off_in_a_call_executes_nothing_of_it(play: Play) -> None:
    def piece(**delta: Any) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "finish_reason": delta.pop("finish_reason", None)}
        return {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}

    def function(**parts: str) -> dict[str, Any]:
        return {"index": 0, "type": "function", "function": parts}

    opened = {**function(name="write", arguments=""), "id": "call_1"}
    halves = ('{"path": "solution.py", ', '"content": "# speedup 2"}')
    stream = [
        piece(role="assistant", tool_calls=[opened]),
        *(piece(tool_calls=[function(arguments=h)]) for h in halves),
    ]
    whole = {"sse": [*stream, piece(finish_reason="tool_calls"), "[DONE]"]}
    end = {"sse": [piece(role="assistant", content="done"), piece(finish_reason="stop"), "[DONE]"]}
    played = play([{**whole, "cut_after": 2}, whole, end], quirks=Quirks(stream=True))
    assert [event.name for event in played.results] == ["write"]
    assert played.solution == "# speedup 2"
    assert (played.trace.turns, played.trace.totals.lost_attempts) == (1, 1)
    assert played.trace.totals.usage.output is None, "no piece said anything of usage"


@pytest.mark.parametrize("first", range(7))
def test_replies_without_calls_are_nudged_twice_and_end_the_run(first: int, play: Play) -> None:
    steps = case("B08")
    played = play([*steps[first:], *steps[:first]])
    assert played.outcome is not None and played.outcome.stop_reason is StopReason.FINISHED_BY_MODEL
    assert (len(played.provider.seen), played.trace.turns) == (3, 0)
    assert sum(isinstance(event, Nudged) for event in played.trace.events) == 2
    assert all(message["content"] for message in played.provider.bodies[-1]["messages"])


def test_one_turn_stays_one_turn_through_a_rate_limit_and_a_server_error(play: Play) -> None:
    steps = case("B09a")
    played = play([*steps, DONE])
    first = played.replies[0]
    assert (first.attempts, first.call, first.turn) == (3, 1, 1)
    assert played.trace.turns == sum(bool(reply.message.get("tool_calls")) for reply in played.replies) == 1
    texts = [json.dumps(body["messages"]) for body in played.provider.bodies[:3]]
    assert len(set(texts)) == 1, "the same request is made again"
    assert played.trace.totals.lost_attempts == 0


@pytest.mark.parametrize(
    "step",
    [
        {"status": 529, "body": {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}},
        {"status": 503, "body": {"error": {"message": "overloaded", "type": "server_error"}}},
    ],
)
def test_an_overload_is_waited_for(step: dict[str, Any], play: Play) -> None:
    name = "anthropic/claude-opus-4-8" if step["status"] == 529 else "openai/d2k-test-1"
    answer = case("B01b")[0] if step["status"] == 529 else DONE
    played = play([step, step, answer], name)
    assert played.replies[0].attempts == 3
    assert len(played.notices) == 2
    assert played.trace.totals.lost_attempts == 0, "an answer that refuses bills nothing"


@pytest.mark.parametrize("index", range(4))
def test_a_conversation_that_no_longer_fits_ends_with_a_selection(index: int, play: Play) -> None:
    calls = [
        {"id": "a", "type": "function", "function": {"name": "write", "arguments": json.dumps(arguments)}}
        for arguments in [{"path": "solution.py", "content": "# speedup 2\n"}]
    ]
    calls.append({"id": "b", "type": "function", "function": {"name": "submit", "arguments": "{}"}})
    played = play([said("", counted(10), tool_calls=calls), case("B09c")[index]])
    assert played.outcome is not None and played.outcome.stop_reason is StopReason.CONTEXT_OVERFLOW
    assert played.outcome.selection is not None and played.outcome.selection.turn == 1
    assert len(played.provider.seen) == 2, "it is not asked again"


def test_a_late_answer_is_not_used_and_makes_the_totals_a_lower_bound(play: Play) -> None:
    late, *rest = case("B09d")
    played = play([late, *rest, DONE], timeout_s=2.0)
    first = played.replies[0]
    assert (first.attempts, first.unknown_attempts) == (2, 1)
    assert "late" not in json.dumps(first.message).lower()
    assert played.trace.totals.lower_bound and played.trace.totals.lost_attempts == 1


def test_missing_usage_leaves_buckets_null_and_says_so(play: Play) -> None:
    answer = said("done")
    del answer["body"]["usage"]
    played = play([answer])
    recorded = [json.loads(line) for line in played.run.events.read_text().splitlines()]
    usages = [event["usage"] for event in recorded if event["type"] == "model_replied"]
    assert usages and all(set(usage.values()) == {None} for usage in usages)
    totals = played.trace.totals
    assert totals.usage.output is None and totals.cost_usd is None and totals.lower_bound


def test_keys_stand_in_no_file_of_a_run(play: Play) -> None:
    echoed = {"status": 400, "body": {"error": {"message": f"bad header Authorization: Bearer {KEY}"}}}
    played = play([said("hello", counted(10)), echoed])
    assert played.outcome is None and any(isinstance(e, ModelCallFailed) for e in played.trace.events)
    assert KEY in json.dumps(played.provider.seen[0]["headers"]), "the provider got it, so the test can fail"
    for file in played.run.path.rglob("*"):
        assert not file.is_file() or KEY.encode() not in file.read_bytes(), file
    assert KEY not in " ".join(played.notices)


def test_requests_only_grow_at_their_end(play: Play) -> None:
    played = play([*case("B06a"), *case("B05b"), *case("B07a"), *case("B06b"), DONE])
    texts = [json.dumps(body["messages"])[:-1] for body in played.provider.bodies]
    assert len(texts) > 6
    assert all(later.startswith(earlier) for earlier, later in itertools.pairwise(texts))
    assert len({json.dumps(body["tools"]) for body in played.provider.bodies}) == 1
