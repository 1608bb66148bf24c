"""Killed at any moment and resumed: nothing that finished is done again, and nothing counts twice."""

from __future__ import annotations

import itertools
import json
import random
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from d2k_agent.agent import StopReason
from d2k_agent.catalog import tools_dir
from d2k_agent.models import ScriptedModel, Usage
from d2k_agent.records import (
    Event,
    ModelCallInterrupted,
    ModelReplied,
    RunFolder,
    RunInterrupted,
    RunResumed,
    ToolCallInterrupted,
    ToolCallStarted,
    ToolFinished,
    Trace,
    read_events,
    read_trace,
)
from d2k_agent.sandbox import Isolation, Sandbox
from d2k_agent.toolbox import HostAnswer, Toolbox, load_tools
from tests.agent.killed import (
    PATIENCE_S,
    SCRIPT,
    TWO_SUBMISSIONS,
    drive_into_a_hanging_submit,
    drive_slowly,
    effects,
    start,
    wait_for,
)
from tests.agent.scene import call, drive, hand_in, new_run, reply, request_bytes, scripted, toolbox, tools_of


def story(trace: Trace) -> Any:
    """What happened in a run, less what differs between two undisturbed ones."""
    assert trace.finished is not None
    return (
        [json.dumps(message) for message in trace.messages()],
        [(item.turn, item.call_id, item.sha256, item.geomean_speedup) for item in trace.submissions],
        trace.turns,
        trace.finished.model_dump(exclude={"seq", "time"}),
    )


def assert_prefixes(requests: Path) -> None:
    """Each request is the one before it with something added; a repeated one is byte for byte the same."""
    bodies = [path.read_bytes() for path in sorted(requests.iterdir())]
    assert len(bodies) >= len(SCRIPT)
    for before, after in itertools.pairwise(bodies):
        assert after.startswith(before)


def count(run: RunFolder) -> int:
    return len(read_events(run.events)[0]) if run.events.exists() else 0


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    run = new_run(tmp_path_factory.mktemp("undisturbed") / "r")
    drive_slowly(run.path)
    assert_prefixes(run.path.parent / "requests")
    return read_trace(run.path)


@pytest.mark.parametrize("seed", range(3))
def test_ten_kills_at_random_moments_change_nothing(tmp_path: Path, undisturbed: Trace, seed: int) -> None:
    run, moments = new_run(tmp_path / "r"), random.Random(seed)
    kills = 0
    while True:
        process = start(run.path, drive_slowly)
        before = count(run)
        if kills < 10:
            wait_for(lambda before=before, process=process: count(run) > before + 1 or process.exitcode is not None)
            time.sleep(moments.uniform(0, 0.06))
            process.kill()
            kills += 1
        process.join(PATIENCE_S)
        if process.exitcode == 0:
            break
        assert process.exitcode == -9

    trace = read_trace(run.path)
    assert kills == 10
    assert story(trace) == story(undisturbed)
    assert_prefixes(tmp_path / "requests")
    lost = sum(isinstance(event, ModelCallInterrupted) for event in trace.events)
    assert (trace.totals.lost_attempts, trace.totals.unreported_replies) == (lost, 0)
    assert trace.totals.lower_bound is (lost > 0)
    assert trace.totals.usage == Usage(*[trace.totals.replies * bucket for bucket in (10, 20, 30, 5)])


def test_a_submission_in_flight_runs_twice_and_counts_once(tmp_path: Path) -> None:
    run = new_run(tmp_path / "r")
    process = start(run.path, drive_into_a_hanging_submit)
    wait_for(lambda: len(effects(run)) == 2)
    process.kill()
    process.join(PATIENCE_S)
    submit = tools_of(run)["submit"]

    def counting(arguments: Mapping[str, Any]) -> HostAnswer:
        with (run.workspace / "effects.txt").open("a") as file:
            file.write("submitted\n")
        return submit(arguments)

    outcome = drive(run, scripted(TWO_SUBMISSIONS), toolbox(run, submit=counting))

    trace = read_trace(run.path)
    assert len(effects(run)) == 3, "the call in flight is made again"
    assert [(item.turn, item.geomean_speedup) for item in trace.submissions] == [(1, 2.0), (2, 2.0)]
    assert outcome.selection is not None and outcome.selection.turn == 1
    assert trace.turns == 2 and trace.totals.replies == 2
    interrupted = [event for event in trace.events if isinstance(event, ToolCallInterrupted)]
    assert [(event.turn, event.index) for event in interrupted] == [(2, 1)]
    answered = [event.call_id for event in trace.events if isinstance(event, ToolFinished)]
    assert len(answered) == len(set(answered)) == 5
    assert (run.workspace / "commands.txt").read_text().splitlines() == ["ls", "x"], "a finished call is not repeated"


def interrupt_at(number: int) -> Callable[[Event], None]:
    """A watcher that presses Ctrl-C right after event `number` was recorded."""

    def watch(event: Event) -> None:
        if event.seq == number:
            raise KeyboardInterrupt

    return watch


def test_ctrl_c_after_any_event_leaves_the_run_resumable(tmp_path: Path) -> None:
    script = ["hm", hand_in("# speedup 2\n"), reply(call("bash", command="a"), call("compile"))]
    whole = new_run(tmp_path / "whole")
    drive(whole, scripted(script))
    expected = read_trace(whole.path)
    assert len(expected.events) > 20

    for number in range(1, len(expected.events)):
        run = new_run(tmp_path / str(number))
        with pytest.raises(KeyboardInterrupt):
            drive(run, scripted(script), progress=interrupt_at(number))
        drive(run, scripted(script))
        trace = read_trace(run.path)
        assert story(trace) == story(expected)
        assert [event.reason for event in trace.events if isinstance(event, RunInterrupted)] == ["Ctrl-C"]


@pytest.mark.parametrize("cuts", [1, 2])
def test_an_edit_that_was_cut_off_while_it_compiled_is_not_made_again(tmp_path: Path, cuts: int) -> None:
    run = new_run(tmp_path / "r")
    (run.workspace / "solution.py").write_text("A = 1\n")
    tools = {name: load_tools(tools_dir())[name] for name in ("edit", "compile")}
    compiled: list[str] = []

    def compiling(arguments: Mapping[str, Any]) -> HostAnswer:
        compiled.append((run.workspace / "solution.py").read_text())
        if len(compiled) <= cuts:
            raise KeyboardInterrupt
        return HostAnswer("ok", "it compiles")

    sandbox = Sandbox(Isolation("none"), run.workspace, unsafe_no_sandbox=True)
    real = Toolbox(tools, sandbox, run.workspace, {"compile": compiling}, {})
    change = call("edit", path="solution.py", old="A = 1", new="A = 1 + 1", compile=True)
    script = [reply(change), reply(call("edit", path="solution.py", old="A = 1", new="B = 1"))]
    for _ in range(cuts):
        with pytest.raises(KeyboardInterrupt):
            drive(run, scripted(script), real)
    drive(run, scripted(script), real)

    assert compiled == ["A = 1 + 1\n"] * (cuts + 1)
    assert (run.workspace / "solution.py").read_text() == "B = 1 + 1\n", "another call is no repetition"
    first, second = [event for event in read_trace(run.path).events if isinstance(event, ToolFinished)]
    assert (first.status, second.status) == ("ok", "ok")
    assert "done before" in first.text and first.text.endswith("[compile]\nit compiles")


def test_an_edit_that_was_cut_off_before_it_changed_anything_is_made(tmp_path: Path) -> None:
    run = new_run(tmp_path / "r")
    (run.workspace / "solution.py").write_text("A = 1\n")
    sandbox = Sandbox(Isolation("none"), run.workspace, unsafe_no_sandbox=True)
    real = Toolbox({"edit": load_tools(tools_dir())["edit"]}, sandbox, run.workspace, {}, {})
    script = [reply(call("edit", path="solution.py", old="A = 1", new="A = 1 + 1"))]

    def at_the_call(event: Event) -> None:
        if isinstance(event, ToolCallStarted):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        drive(run, scripted(script), real, at_the_call)
    drive(run, scripted(script), real)
    assert (run.workspace / "solution.py").read_text() == "A = 1 + 1\n"


def test_without_its_checkpoint_a_run_goes_on_from_the_log(tmp_path: Path) -> None:
    run = new_run(tmp_path / "r")
    half = [hand_in("# speedup 2\n"), reply(call("bash", command="a"))]
    rest = [reply(call("bash", command="b"))]

    def interrupted(messages: Any, tools: Any) -> Any:
        if len(messages) > 6:
            raise KeyboardInterrupt
        return ScriptedModel(half).complete(messages, tools).message

    with pytest.raises(KeyboardInterrupt):
        drive(run, ScriptedModel(interrupted))
    run.checkpoint.unlink()
    drive(run, scripted([*half, *rest]))

    trace = read_trace(run.path)
    assert [event.checkpoint for event in trace.events if isinstance(event, RunResumed)] == [False]
    assert (run.workspace / "commands.txt").read_text().splitlines() == ["a", "b"]
    assert trace.turns == 3 and len(trace.submissions) == 1


def test_a_checkpoint_that_knows_more_than_the_log_is_done_without(tmp_path: Path) -> None:
    """A power cut may lose the end of the log and keep the checkpoint."""
    run = new_run(tmp_path / "r")
    script = [hand_in("# speedup 2\n"), hand_in("# speedup 3\n")]

    def interrupted(messages: Any, tools: Any) -> Any:
        if len(messages) > 7:
            raise KeyboardInterrupt
        return ScriptedModel(script).complete(messages, tools).message

    with pytest.raises(KeyboardInterrupt):
        drive(run, ScriptedModel(interrupted))
    lines = run.events.read_bytes().splitlines(keepends=True)
    first_turn = next(number for number, line in enumerate(lines) if b'"turn_closed"' in line)
    run.events.write_bytes(b"".join(lines[: first_turn + 1]))

    outcome = drive(run, scripted(script))

    trace = read_trace(run.path)
    assert outcome.selection is not None and outcome.selection.geomean_speedup == 3.0
    assert [event.call for event in trace.events if isinstance(event, ModelReplied)] == [1, 2]
    assert [event.checkpoint for event in trace.events if isinstance(event, RunResumed)] == [False]


@pytest.mark.parametrize("seed", range(5))
def test_requests_only_grow_at_their_end(tmp_path: Path, seed: int) -> None:
    """Random runs: each request is a byte prefix of the next one, whatever the replies were."""
    choices = random.Random(seed)
    makers: list[Callable[[], Any]] = [
        lambda: "no call \udcff é " + "x" * choices.randrange(50),
        lambda: hand_in(f"# speedup {choices.random():.3f}\n"),
        lambda: reply(*[call("bash", command=str(choices.random())) for _ in range(choices.randrange(1, 40))]),
        lambda: {"content": None, "tool_calls": [{"id": "same", "function": {"name": "bash", "arguments": "{"}}] * 2},
        lambda: {"content": [{"type": "text", "text": "hm"}], "thinking_blocks": [{"signature": "s"}]},
    ]
    script = [choices.choice(makers)() for _ in range(12)]
    requests: list[bytes] = []

    drive(new_run(tmp_path / "r"), scripted(script, requests))

    assert len(requests) >= 3
    for before, after in itertools.pairwise(requests):
        assert len(after) > len(before) and after.startswith(before)


def test_a_resumed_run_keeps_the_tools_it_began_with(tmp_path: Path) -> None:
    run = new_run(tmp_path / "r")
    requests: list[bytes] = []

    def interrupted(messages: Any, tools: Any) -> Any:
        requests.append(request_bytes(messages, tools))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        drive(run, ScriptedModel(interrupted))
    another = toolbox(run, another=lambda arguments: HostAnswer("ok", ""))
    drive(run, scripted([hand_in("# speedup 2\n")], requests), another)

    assert requests[1] == requests[0]
    assert read_trace(run.path).finished is not None
    assert read_trace(run.path).finished.stop_reason is StopReason.SCRIPT_ENDED  # type: ignore[union-attr]
