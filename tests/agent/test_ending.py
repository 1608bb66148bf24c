"""A run that nobody drives is ended as a stop would end it, without model, tools or evaluator."""

from __future__ import annotations

from pathlib import Path

import pytest

from d2k_agent.agent import StopReason, end_run
from d2k_agent.errors import UsageError
from d2k_agent.records import RunFolder, ToolFinished, read_trace
from tests.agent.scene import call, drive, hand_in, new_run, reply, scripted

SCRIPT = [
    "Let me think.",
    hand_in("# speedup 2\n"),
    hand_in("# speedup 3\n"),
    reply(call("bash", command="1"), call("bash", command="2")),
]


def cut_off(folder: Path, before: str, number: int = 1, checkpoint: bool = False) -> RunFolder:
    """A run that was killed before the `number`th event of a type was recorded."""
    run = new_run(folder / "r")
    drive(run, scripted(SCRIPT))
    lines = run.events.read_bytes().splitlines(keepends=True)
    of_type = [index for index, line in enumerate(lines) if f'"type":"{before}"'.encode() in line]
    run.events.write_bytes(b"".join(lines[: of_type[number - 1]]))
    if not checkpoint:
        run.checkpoint.unlink()
    return run


@pytest.mark.parametrize("checkpoint", [False, True])
def test_the_best_so_far_is_selected_and_no_turn_is_lost(tmp_path: Path, checkpoint: bool) -> None:
    run = cut_off(tmp_path, "model_call_started", 4, checkpoint)
    outcome = end_run(run)
    trace = read_trace(run.path)
    assert trace.finished is not None and outcome.selection == trace.finished.selection
    assert (outcome.stop_reason, trace.finished.turns, trace.turns) == (StopReason.STOP_REQUESTED, 2, 2)
    assert outcome.selection is not None and outcome.selection.geomean_speedup == 3.0
    assert trace.confirmed is not None and "asked to stop first" in trace.confirmed.note
    assert [event.type for event in trace.events].count("model_replied") == 3


def test_calls_in_hand_get_an_answer_and_none_of_them_is_run(tmp_path: Path) -> None:
    run = cut_off(tmp_path, "turn_closed", 3)
    commands = (run.workspace / "commands.txt").read_text()
    lines = run.events.read_bytes().splitlines(keepends=True)
    run.events.write_bytes(b"".join(lines[:-1]))  # the second command had begun, and had no result
    end_run(run)
    trace = read_trace(run.path)
    results = [event for event in trace.events if isinstance(event, ToolFinished) and event.turn == 3]
    assert [(event.index, event.executed) for event in results] == [(0, True), (1, False)]
    assert (trace.turns, (run.workspace / "commands.txt").read_text()) == (3, commands)


def test_a_run_in_which_nothing_happened_ends_without_a_selection(tmp_path: Path) -> None:
    run = new_run(tmp_path / "r")
    outcome = end_run(run)
    assert (outcome.stop_reason, outcome.selection, outcome.provisional) == (StopReason.STOP_REQUESTED, None, None)
    kinds = [event.type for event in read_trace(run.path).events]
    assert kinds == ["selection_made", "selection_confirmed", "run_finished"], "no conversation began"


def test_a_run_that_is_driven_is_left_to_its_driver_and_one_that_is_over_as_it_is(tmp_path: Path) -> None:
    run = new_run(tmp_path / "r")
    with run.drive(), pytest.raises(UsageError, match="is driven by process"):
        end_run(run)
    assert not run.events.exists()
    run.withdraw_stop()
    drive(run, scripted(SCRIPT))
    before = run.events.read_bytes()
    assert end_run(run).stop_reason is StopReason.SCRIPT_ENDED and run.events.read_bytes() == before
