"""Budgets: what a run has taken, when it ends, and what the model is told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from d2k_agent.agent import StopReason
from d2k_agent.agent.budgets import Budgets, Taken
from d2k_agent.config import RunConfig
from d2k_agent.errors import UsageError
from d2k_agent.models import ScriptedModel, Usage
from d2k_agent.records import (
    QUEUED_S,
    BudgetTold,
    ConversationStarted,
    Event,
    ModelCallFailed,
    ModelCallInterrupted,
    ModelCallStarted,
    ModelReplied,
    RunResumed,
    ToolFinished,
    read_trace,
)
from d2k_agent.toolbox import HostAnswer
from tests.agent.scene import Counted, call, drive, hand_in, new_run, reply, scripted, slowly, toolbox, tools_of

WORK = reply(call("bash", command="true"))
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


EACH = Usage(10, 20, 30, 5)


def replied(usage: Usage = EACH, cost_usd: float | None = 0.25) -> ModelReplied:
    return ModelReplied(call=1, turn=1, message={}, finish_reason=None, usage=usage, cost_usd=cost_usd, seconds=1.0)


def taken(*events: Event) -> Taken:
    found = Taken()
    for event in events:
        found.feed(event)
    return found


@pytest.mark.parametrize(
    ("bucket", "limit", "asked"),
    [
        ("output", 5, 1),
        ("output", 6, 2),
        ("cache_read", 61, 3),
        ("cache_write", 40, 2),
        ("total", 65, 1),
        ("total", 66, 2),
    ],
)
def test_a_limit_in_tokens_of_any_bucket_ends_the_run_with_a_selection(
    bucket: str, limit: int, asked: int, tmp_path: Path
) -> None:
    """Each reply takes 10 uncached, 20 written, 30 read and 5 output tokens."""
    run = new_run(tmp_path / "r", budget_tokens={bucket: limit})
    outcome = drive(run, Counted(scripted([hand_in("# speedup 2\n"), *[WORK] * 5])))
    assert outcome.stop_reason is StopReason.TOKEN_LIMIT
    assert outcome.selection is not None and outcome.selection.turn == 1
    assert read_trace(run.path).totals.replies == asked


def test_a_reply_that_says_nothing_of_tokens_ends_a_run_that_has_a_limit_of_them(tmp_path: Path) -> None:
    run = new_run(tmp_path / "r", budget_tokens={"output": 1000})
    outcome = drive(run, scripted([hand_in("# speedup 2\n"), WORK]))
    assert outcome.stop_reason is StopReason.TOKENS_UNKNOWN
    assert outcome.selection is not None


def test_tokens_that_nobody_split_count_in_all_and_in_no_bucket() -> None:
    unsplit = taken(replied(Usage(None, None, None, 5, unsplit_input=100)))
    assert (unsplit.tokens("total"), unsplit.tokens("output"), unsplit.tokens("cache_read")) == (105, 5, None)
    written = taken(replied(Usage(None, 40, None, 5, unsplit_input=60)))
    assert (written.tokens("total"), written.tokens("cache_write")) == (105, 40)
    assert taken(replied(Usage.unknown())).tokens("total") is None
    assert taken().tokens("total") == 0


def test_time_ends_the_run_before_the_next_request(tmp_path: Path) -> None:
    run = new_run(tmp_path / "r", budget_wall_s=2.0)
    tools = toolbox(run, bash=slowly(tools_of(run)["bash"], 2.1))
    outcome = drive(run, scripted([hand_in("# speedup 2\n"), WORK, WORK]), tools)
    assert outcome.stop_reason is StopReason.WALL_TIME_LIMIT
    assert outcome.selection is not None
    assert read_trace(run.path).turns == 2, "what was begun was brought to its end"


def test_the_queue_for_a_gpu_is_no_working_time(tmp_path: Path) -> None:
    """A tool that says it waited for an hour, and a run that may work for a minute."""

    def queueing(arguments: Mapping[str, Any]) -> HostAnswer:
        return HostAnswer("ok", "done", {QUEUED_S: 3600.0})

    run = new_run(tmp_path / "r", budget_working_s=60.0, turns=3)
    outcome = drive(run, scripted([WORK] * 3), toolbox(run, bash=queueing))
    assert outcome.stop_reason is StopReason.TURN_LIMIT
    assert read_trace(run.path).turns == 3
    working = new_run(tmp_path / "w", budget_working_s=0.2, turns=3)
    tools = toolbox(working, bash=slowly(tools_of(working)["bash"], 0.3))
    assert drive(working, scripted([WORK] * 3), tools).stop_reason is StopReason.WORKING_TIME_LIMIT


def test_nobody_drives_a_run_between_an_interruption_and_its_resume() -> None:
    def at(minutes: float) -> datetime:
        return NOON + timedelta(minutes=minutes)

    found = Taken()
    found.feed(ConversationStarted(messages=[], tools=[], time=at(0)))
    found.feed(ModelCallStarted(call=1, turn=1, time=at(10)))
    found.feed(RunResumed(pid=1, checkpoint=True, time=at(600)))
    result = ToolFinished(
        turn=1, index=0, call_id="a", name="submit", status="ok", text="", data={QUEUED_S: 120.0}, time=at(605)
    )
    found.feed(result)
    assert found.wall_s(at(606)) == 16 * 60
    assert found.working_s(at(606)) == 14 * 60


def test_budgets_that_were_taken_before_a_resume_count(tmp_path: Path) -> None:
    run = new_run(tmp_path / "r", budget_tokens={"output": 12})
    policy = [WORK] * 2

    def broken(messages: Any, tools: Any) -> Any:
        if sum(message["role"] == "assistant" for message in messages) == 2:
            raise UsageError("the key is refused; set another one")
        return WORK

    with pytest.raises(Exception, match="resume the run"):
        drive(run, Counted(ScriptedModel(broken)))
    outcome = drive(run, Counted(scripted([*policy, WORK, WORK, WORK])))
    assert outcome.stop_reason is StopReason.TOKEN_LIMIT
    assert read_trace(run.path).totals.replies == 3


def test_the_model_is_told_only_where_somebody_asked_for_it(tmp_path: Path) -> None:
    limits: dict[str, Any] = {"budget_usd": 1.0, "budget_tokens": {"output": 1000, "total": 5000}, "turns": 3}
    quiet = new_run(tmp_path / "q", budget_wall_s=3600.0, **limits)
    drive(quiet, Counted(scripted([WORK] * 3)))
    said = "".join(str(message["content"]) for message in read_trace(quiet.path).messages())
    assert "budget" not in said and "limited" not in said

    run = new_run(tmp_path / "r", budget_wall_s=3600.0, show_budget=True, **limits)
    requests: list[bytes] = []
    drive(run, Counted(scripted([WORK] * 3, requests)))
    trace = read_trace(run.path)
    opening = trace.messages()[1]["content"]
    for words in (
        "- 3 turns; a turn is one reply of yours that calls tools, however many",
        "- US$ 1.0000 for all of your replies, their input included",
        "- 1,000 tokens of output, reasoning included",
        "- 5,000 tokens of input and output together, counted anew with every request",
        "- 3,600 seconds, from the beginning to the end",
    ):
        assert words in opening
    told = [event for event in trace.events if isinstance(event, BudgetTold)]
    assert [event.turn for event in told] == [1, 2], "after the last turn nobody reads it"
    assert told[0].text.startswith(
        "[budget left: 2 of 3 turns; US$ 0.7500 of 1.0000; 995 of 1,000 tokens of output, reasoning included; "
        "4,935 of 5,000 tokens of input and output together"
    )
    assert requests[2].startswith(requests[1]) and requests[1].startswith(requests[0]), "the prefix is kept"


def test_what_is_unknown_is_told_as_unknown() -> None:
    budgets = Budgets(10, usd=1.0, tokens={"output": 100})
    text = budgets.left(1, taken(replied(Usage.unknown(), None)))
    assert "dollars unknown" in text and "an unknown number of 100 tokens of output" in text


@pytest.mark.parametrize(
    "lost",
    [
        replied().model_copy(update={"unknown_attempts": 2}),
        ModelCallInterrupted(call=2),
        ModelCallFailed(call=2, reason="late", may_be_billed=True),
        ModelCallFailed(call=2, reason="late", may_be_billed=True, unknown_attempts=3),
    ],
    ids=["retried", "interrupted", "failed", "failed often"],
)
def test_after_a_request_that_may_have_been_billed_what_is_left_is_an_upper_bound(lost: Event) -> None:
    budgets = Budgets(10, usd=5.0, tokens={"output": 100, "total": 1000})
    exact, bounded = taken(replied()), taken(replied(), lost)
    assert "at most" not in budgets.left(1, exact)
    told = budgets.left(1, bounded)
    assert "; at most US$ 4." in told and "; at most 9" in told and told.count("at most") == 3
    assert "9 of 10 turns" in told and budgets.reached(bounded) is None


def test_a_request_that_was_refused_before_it_could_be_billed_bounds_nothing() -> None:
    refused = ModelCallFailed(call=2, reason="no such model", may_be_billed=False)
    assert "at most" not in Budgets(10, usd=5.0).left(1, taken(replied(), refused))


@pytest.mark.parametrize(
    ("usd", "words"), [(0.004, "0.0040"), (0.00001, "less than 0.0001"), (1250.0, "1,250.0000")], ids=str
)
def test_a_small_budget_is_not_told_as_none(usd: float, words: str) -> None:
    assert f"- US$ {words} for all of your replies" in Budgets(10, usd=usd).announced()
    assert f"US$ {words} of {words}" in Budgets(10, usd=usd).left(1, taken())


def test_short_times_are_not_told_as_none() -> None:
    budgets = Budgets(10, wall_s=0.5, working_s=90.0)
    assert "- less than 1 seconds, from" in budgets.announced() and "- 90 seconds, waiting" in budgets.announced()
    assert "less than 1 of less than 1 seconds; 90 of 90 seconds" in budgets.left(1, taken())


def test_the_words_never_say_that_less_than_nothing_is_left() -> None:
    budgets = Budgets(10, usd=0.1, tokens={"output": 1})
    assert "US$ 0.0000 of 0.1000; 0 of 1 tokens" in budgets.left(1, taken(replied()))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"budget_tokens": {"input": 5}}, "budget-tokens 'input' does not exist"),
        ({"budget_tokens": {"output": 0}}, "--budget-tokens must be greater than 0"),
        ({"budget_usd": 0.0}, "--budget-usd must be greater than 0"),
        ({"budget_wall_s": 0.0}, "budget-wall-s must be greater than 0"),
        ({"budget_working_s": -1.0}, "budget-working-s must be greater than 0"),
    ],
)
def test_a_budget_that_no_run_can_have_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        replace(RunConfig(task="t", model="m"), **options)
