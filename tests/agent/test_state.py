"""What the checkpoints hold: ids, counters and offsets. Case group C."""

from __future__ import annotations

import dataclasses
import pathlib
import sqlite3
import threading
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import ormsgpack
import pytest
from langgraph.checkpoint.sqlite import SqliteSaver

from d2k_agent.agent import StopReason, mermaid
from d2k_agent.agent.graph import WAYS, build_graph
from d2k_agent.agent.replies import CALLS_PER_REPLY
from d2k_agent.agent.state import State, recursion_limit, require_plain
from d2k_agent.contract import Verdict, VerdictStatus, source_sha256
from d2k_agent.errors import MachineError
from d2k_agent.models import ScriptedModel
from d2k_agent.records import RunFolder, RunResumed, read_trace
from d2k_agent.toolbox import HostAnswer
from tests.agent.scene import HERE, call, drive, hand_in, new_run, reply, scripted, toolbox

SECRET = "a body that belongs into the log alone"


@pytest.fixture(scope="module")
def long_run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """350 turns with 4 kB of reply and 8 kB of tool result each."""
    run = new_run(tmp_path_factory.mktemp("long") / "r", turns=350)
    script = [hand_in("# speedup 2\n")]
    script += [reply(call("bash", command=str(turn)), content=f"{turn:8d}" * 512) for turn in range(2, 400)]
    drive(run, scripted(script), toolbox(run, bash=lambda arguments: HostAnswer("ok", "result " * 1170)))
    return run


def test_350_turns_fit_and_the_limit_ends_in_a_selection(long_run: RunFolder) -> None:
    trace = read_trace(long_run.path)

    assert trace.turns == trace.totals.replies == 350
    assert trace.finished is not None
    assert trace.finished.stop_reason is StopReason.TURN_LIMIT
    assert trace.finished.selection is not None


def test_350_turns_stay_below_ten_megabytes(long_run: RunFolder) -> None:
    size = sum(path.stat().st_size for path in long_run.path.rglob("*") if path.is_file())

    assert long_run.events.stat().st_size > 350 * 12_000, "the bodies are there"
    assert size < 10e6


def refused(source: str) -> Verdict:
    return Verdict(VerdictStatus.INCORRECT, source_sha256(source), "did not hold", HERE)


def test_the_recursion_limit_covers_the_longest_run(tmp_path: Path) -> None:
    """Two nudges before every turn, more calls than the cap in each, every submission refused when confirmed."""
    run = new_run(tmp_path / "r", turns=2)
    calls = [
        step
        for number in range(1, 17)
        for step in (call("write", path="solution.py", content=f"# speedup {number}\n# {number}"), call("submit"))
    ]
    turn = ["hm", "hm", reply(*calls, *[call("submit")] * 8)]

    outcome = drive(run, scripted(turn * 2), confirm=refused)

    assert outcome.stop_reason is StopReason.TURN_LIMIT
    assert outcome.selection is None
    with closing(sqlite3.connect(run.checkpoint)) as database:
        (steps,) = database.execute("select count(*) from checkpoints").fetchone()
    assert 2 * (CALLS_PER_REPLY + 6) < steps <= recursion_limit(2)


def test_the_saved_state_is_scalars_and_no_body_is_in_the_database(tmp_path: Path) -> None:
    run = new_run(tmp_path / "r")
    drive(run, scripted([reply(call("write", path="solution.py", content=SECRET), content=SECRET), hand_in(SECRET)]))

    with closing(sqlite3.connect(run.checkpoint, check_same_thread=False)) as database:
        machine = build_graph().compile(checkpointer=SqliteSaver(database))
        saved = machine.get_state({"configurable": {"thread_id": "run"}})

    assert set(saved.values) == set(State.__annotations__)
    assert all(value is None or type(value) in (int, str) for value in saved.values.values())
    assert saved.next == ()
    assert SECRET.encode() not in run.checkpoint.read_bytes()
    assert run.events.read_text().count(SECRET) >= 3


@dataclasses.dataclass
class Timing:
    ms: float


class Plain:
    pass


@pytest.mark.parametrize(
    "value",
    [
        ValueError("launch failed"),
        Plain(),
        Timing(1.5),
        pathlib.PurePosixPath("/w/solution.py"),
        threading.Lock(),
        threading,
        [float("nan"), float("inf")],
        float("nan"),
        "bad \udcff byte",
        b"\xff\x00",
        1 << 80,
        (1, 2),
        True,
        StopReason.TURN_LIMIT,
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_that_a_checkpoint_would_change_is_named(value: Any) -> None:
    with pytest.raises(TypeError, match="node close_turn set stop to"):
        require_plain("close_turn", {"turn": 3, "stop": value})


def test_a_key_that_the_state_lacks_is_named() -> None:
    with pytest.raises(TypeError, match="'messages'"):
        require_plain("call_model", {"messages": 1})


def test_the_machine_is_drawn_as_it_is() -> None:
    drawing = mermaid()

    for name, (_, ways) in WAYS.items():
        for way in ways:
            assert any(f"{name} {arrow} {way};" in drawing for arrow in ("-->", "-.->"))


def test_a_damaged_checkpoint_is_a_broken_machine(tmp_path: Path) -> None:
    run = new_run(tmp_path / "r")
    run.checkpoint.write_bytes(b"no database" * 1000)

    with pytest.raises(MachineError, match="may be removed") as problem:
        drive(run, ScriptedModel([]))
    assert str(run.checkpoint) in str(problem.value)


def test_a_checkpoint_calls_nothing_and_one_that_is_no_state_is_done_without(tmp_path: Path) -> None:
    """A run's folder may be a stranger's: what its checkpoint names is not imported."""
    run = new_run(tmp_path / "r")
    script = [hand_in("# speedup 2\n"), reply(call("bash", command="a"))]
    with pytest.raises(KeyboardInterrupt):
        drive(run, scripted(script), toolbox(run, bash=_ctrl_c))
    harm = ormsgpack.Ext(0, ormsgpack.packb(("os", "mkdir", str(tmp_path / "harm"))))
    with closing(sqlite3.connect(run.checkpoint)) as connection, connection:
        rows = connection.execute("SELECT checkpoint_id, checkpoint FROM checkpoints").fetchall()
        for name, blob in rows:
            saved = ormsgpack.unpackb(blob)
            saved["channel_values"]["turn"] = harm
            connection.execute(
                "UPDATE checkpoints SET checkpoint = ? WHERE checkpoint_id = ?", (ormsgpack.packb(saved), name)
            )

    drive(run, scripted(script))

    trace = read_trace(run.path)
    assert rows and not (tmp_path / "harm").exists()
    assert [event.checkpoint for event in trace.events if isinstance(event, RunResumed)] == [False]
    assert trace.finished is not None and trace.turns == 2


def _ctrl_c(arguments: Mapping[str, Any]) -> HostAnswer:
    raise KeyboardInterrupt
