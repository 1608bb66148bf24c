"""One undisturbed run: how turns are counted, what ends a run and what stands for it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from d2k_agent.agent import StopReason
from d2k_agent.errors import ContextOverflow, ModelError, UsageError
from d2k_agent.models import ScriptedModel
from d2k_agent.records import (
    ConversationStarted,
    ModelCallFailed,
    ModelCallInterrupted,
    Nudged,
    RunFinished,
    RunInterrupted,
    SelectionMade,
    ToolFinished,
    TurnClosed,
    read_trace,
)
from d2k_agent.toolbox import HostAnswer
from tests.agent.scene import Counted, call, drive, hand_in, new_run, reply, scripted, toolbox, tools_of


def test_the_fastest_eligible_submission_is_selected(tmp_path: Path) -> None:
    run = new_run(tmp_path / "r")
    speeds = [hand_in(f"# speedup {speed}\n") for speed in (1.5, 3.0, 2.0)]

    outcome = drive(run, scripted([hand_in("# wrong\n"), *speeds, "done", "done", "done"]))

    assert outcome.stop_reason is StopReason.FINISHED_BY_MODEL
    assert outcome.selection is not None and outcome.provisional is None
    assert (outcome.selection.geomean_speedup, outcome.selection.turn) == (3.0, 3)
    assert run.candidate(outcome.selection.sha256) == "# speedup 3.0\n"
    assert len(read_trace(run.path).submissions) == 4


def test_without_a_measurement_the_last_correct_candidate_is_provisional(tmp_path: Path) -> None:
    run = new_run(tmp_path / "r")
    texts = ("# untimed one\n", "# untimed two\n", "# wrong\n")

    outcome = drive(run, scripted([hand_in(text) for text in texts]))

    assert outcome.stop_reason is StopReason.SCRIPT_ENDED
    assert outcome.selection is None
    assert outcome.provisional is not None and outcome.provisional.turn == 2
    assert run.candidate(outcome.provisional.sha256) == "# untimed two\n"
    made = [event for event in read_trace(run.path).events if isinstance(event, SelectionMade)]
    assert "without a rank" in made[-1].why


def test_a_run_without_submissions_ends_with_nothing(tmp_path: Path) -> None:
    outcome = drive(new_run(tmp_path / "r"), scripted([reply(call("bash", command="true"))]))

    assert (outcome.selection, outcome.provisional) == (None, None)


def test_the_turn_limit_ends_the_run_with_a_selection(tmp_path: Path) -> None:
    run = new_run(tmp_path / "r", turns=2)

    outcome = drive(run, scripted([hand_in(f"# speedup {speed}\n") for speed in (1.0, 2.0, 9.0)]))

    assert outcome.stop_reason is StopReason.TURN_LIMIT
    assert outcome.selection is not None and outcome.selection.geomean_speedup == 2.0
    assert read_trace(run.path).turns == 2


@pytest.mark.parametrize(("budget_usd", "asked"), [(0.25, 1), (0.5, 2), (0.51, 3)])
def test_a_limit_in_dollars_ends_the_run_with_a_selection(budget_usd: float, asked: int, tmp_path: Path) -> None:
    run = new_run(tmp_path / "r", budget_usd=budget_usd)

    outcome = drive(run, Counted(scripted([hand_in("# speedup 2.0\n")] * 5)))

    assert outcome.stop_reason is StopReason.COST_LIMIT
    assert outcome.selection is not None
    assert read_trace(run.path).totals.replies == asked


def test_under_a_limit_in_dollars_a_reply_without_a_price_is_the_last(tmp_path: Path) -> None:
    run = new_run(tmp_path / "r", budget_usd=100.0)

    outcome = drive(run, scripted([hand_in("# speedup 2.0\n")] * 5))

    assert outcome.stop_reason is StopReason.COST_UNKNOWN
    assert outcome.selection is not None
    assert read_trace(run.path).totals.replies == 1


def test_many_calls_of_one_reply_are_one_turn(tmp_path: Path) -> None:
    run = new_run(tmp_path / "r", turns=1)
    calls = [call("bash", command=f"echo {number}") for number in range(5)]

    drive(run, scripted([reply(*calls)]))

    closed = [event for event in read_trace(run.path).events if isinstance(event, TurnClosed)]
    assert [(event.turn, event.calls, event.executed) for event in closed] == [(1, 5, 5)]
    assert (run.workspace / "commands.txt").read_text().splitlines() == [f"echo {number}" for number in range(5)]


def test_calls_beyond_the_cap_get_an_error_and_are_not_executed(tmp_path: Path) -> None:
    run = new_run(tmp_path / "r", turns=1)
    calls = [call("bash", command=str(number)) for number in range(40)]

    drive(run, scripted([reply(*calls)]))

    results = [event for event in read_trace(run.path).events if isinstance(event, ToolFinished)]
    assert [event.index for event in results] == list(range(40))
    assert [event.executed for event in results] == [True] * 32 + [False] * 8
    assert all("at most 32 calls" in event.text for event in results[32:])
    assert len((run.workspace / "commands.txt").read_text().split()) == 32


def test_a_nudge_counts_no_turn_and_a_tool_call_resets_the_count(tmp_path: Path) -> None:
    run = new_run(tmp_path / "r")
    work = reply(call("bash", command="true"))

    outcome = drive(run, scripted(["a", "b", work, "c", "d", work, "e", "f", "g", work]))

    trace = read_trace(run.path)
    assert outcome.stop_reason is StopReason.FINISHED_BY_MODEL
    assert trace.turns == 2
    assert sum(isinstance(event, Nudged) for event in trace.events) == 6


def test_a_reply_cut_before_its_call_is_told_so(tmp_path: Path) -> None:
    run = new_run(tmp_path / "r")

    drive(run, ScriptedModel([{"content": "Let me think", "finish_reason": "length"}]))

    nudges = [event.text for event in read_trace(run.path).events if isinstance(event, Nudged)]
    assert len(nudges) == 1 and "limit on output tokens" in nudges[0]


def test_a_requested_stop_ends_the_run_after_the_step_in_flight(tmp_path: Path) -> None:
    run = new_run(tmp_path / "r")

    def stopping(arguments: Mapping[str, Any]) -> HostAnswer:
        run.request_stop()
        return HostAnswer("ok", "done")

    script = [hand_in("# speedup 2\n"), reply(call("bash", command="1"), call("bash", command="2"), call("submit"))]
    outcome = drive(run, scripted(script), toolbox(run, bash=stopping))

    trace = read_trace(run.path)
    assert outcome.stop_reason is StopReason.STOP_REQUESTED
    assert outcome.selection is not None and outcome.selection.turn == 1
    results = [event for event in trace.events if isinstance(event, ToolFinished) and event.turn == 2]
    assert [(event.index, event.executed) for event in results] == [(0, True), (1, False), (2, False)]
    assert trace.turns == 2, "every call of the reply has an answer, so the turn is whole"


def test_a_stop_before_the_first_request_asks_nobody(tmp_path: Path) -> None:
    run = new_run(tmp_path / "r")
    run.request_stop()
    requests: list[bytes] = []

    outcome = drive(run, scripted([hand_in("# speedup 2\n")], requests))

    assert outcome.stop_reason is StopReason.STOP_REQUESTED and requests == []


def test_an_overflowing_conversation_ends_the_run_with_its_best(tmp_path: Path) -> None:
    run = new_run(tmp_path / "r")

    def policy(messages: Any, tools: Any) -> Any:
        if len(messages) > 3:
            raise ContextOverflow("too long")
        return hand_in("# speedup 2\n")

    outcome = drive(run, ScriptedModel(policy))

    assert outcome.stop_reason is StopReason.CONTEXT_OVERFLOW
    assert outcome.selection is not None


def test_a_failing_provider_leaves_the_run_resumable(tmp_path: Path) -> None:
    run = new_run(tmp_path / "r")

    def refusing(messages: Any, tools: Any) -> Any:
        raise ModelError("the provider answers 500; try again later", unknown_attempts=3)

    with pytest.raises(ModelError, match="500"):
        drive(run, ScriptedModel(refusing))
    outcome = drive(run, Counted(scripted([hand_in("# speedup 2\n")])))

    trace = read_trace(run.path)
    assert outcome.selection is not None
    assert next(event.reason for event in trace.events if isinstance(event, ModelCallFailed)).startswith("the provider")
    assert [event.node for event in trace.events if isinstance(event, RunInterrupted)] == ["call_model"]
    assert (trace.totals.lost_attempts, trace.totals.unreported_replies) == (3, 0)
    assert trace.totals.lower_bound and trace.totals.cost_lower_bound


def test_requests_that_were_never_sent_leave_the_totals_whole(tmp_path: Path) -> None:
    run = new_run(tmp_path / "r")

    def unreachable(messages: Any, tools: Any) -> Any:
        raise ModelError("no connection; gave up after 8 attempts")

    with pytest.raises(ModelError):
        drive(run, ScriptedModel(unreachable))
    drive(run, Counted(scripted([hand_in("# speedup 2\n")])))

    totals = read_trace(run.path).totals
    assert not totals.lower_bound and not totals.cost_lower_bound


def refusing_after(replies: int) -> ScriptedModel:
    """A model whose key is refused once it gave that many replies."""

    def policy(messages: Any, tools: Any) -> Any:
        if sum(message["role"] == "assistant" for message in messages) >= replies:
            raise UsageError("the key is refused; set another one")
        return reply(call("bash", command="true"))

    return ScriptedModel(policy)


def test_a_key_refused_at_the_first_call_is_a_mistake_of_use(tmp_path: Path) -> None:
    run = new_run(tmp_path / "r")

    with pytest.raises(UsageError) as caught:
        drive(run, refusing_after(0))
    assert str(caught.value) == "the key is refused; set another one"
    drive(run, Counted(scripted([hand_in("# speedup 2\n")])))

    trace = read_trace(run.path)
    assert [event.may_be_billed for event in trace.events if isinstance(event, ModelCallFailed)][:1] == [False]
    assert not any(isinstance(event, ModelCallInterrupted) for event in trace.events)
    assert not trace.totals.lower_bound


def test_a_key_revoked_in_the_middle_leaves_a_run_that_goes_on(tmp_path: Path) -> None:
    run = new_run(tmp_path / "r")

    with pytest.raises(ModelError, match="set another one; then resume the run") as caught:
        drive(run, Counted(refusing_after(2)))
    assert caught.value.exit_status == 3
    work = reply(call("bash", command="true"))
    outcome = drive(run, Counted(scripted([work, work, hand_in("# speedup 2\n")])))

    trace = read_trace(run.path)
    assert outcome.selection is not None and outcome.selection.turn == 3
    assert not any(isinstance(event, ModelCallInterrupted) for event in trace.events)
    assert not trace.totals.lower_bound


def test_a_run_that_is_over_is_left_as_it_is(tmp_path: Path) -> None:
    run = new_run(tmp_path / "r")
    first = drive(run, scripted([hand_in("# speedup 2\n")]))
    before = run.events.read_bytes()

    assert drive(run, scripted([hand_in("# speedup 9\n")] * 5)) == first
    assert run.events.read_bytes() == before
    assert isinstance(read_trace(run.path).events[-1], RunFinished)


def test_a_second_driver_is_refused_by_name(tmp_path: Path) -> None:
    run = new_run(tmp_path / "r")

    with run.drive() as driver, pytest.raises(UsageError, match=f"process {driver.pid}") as refusal:
        drive(run, scripted([]))

    assert "d2k-agent stop" in str(refusal.value)
    assert drive(run, scripted([])).stop_reason is StopReason.SCRIPT_ENDED


def test_the_opening_names_the_files_and_tools_and_no_budget(tmp_path: Path) -> None:
    run = new_run(tmp_path / "r", turns=7)
    (run.workspace / "guidance.json").write_text("{}")

    drive(run, scripted([]))

    start = read_trace(run.path).events[0]
    assert isinstance(start, ConversationStarted)
    system, user = start.messages
    assert "solution.py" in user["content"] and "guidance.json: design guidance" in user["content"]
    assert "Tools: bash, compile, profile, read, submit, write." in user["content"]
    assert "turn" not in system["content"] + user["content"]
    assert [schema["function"]["name"] for schema in start.tools] == sorted(tools_of(run))
