"""What the loop costs: scripted turns with a null tool, beside a bare LangGraph and beside the naive loop.

    python benchmarks/loop.py [--turns 350] [--repeats 3] [--json FILE]

The subjects run in one process, in turns, so that their ratios hold on a busy machine too:

    ours      the product: scripted model, 4 KB of new text a turn, null tool, event log and checkpoints
    bare      three nodes that count, with the same saver and the same durability; it keeps no conversation at all
    unsynced  the same, its database synced as rarely as ours: the product syncs its log instead (for information)
    naive     two nodes with the messages in the state (about 500 MB of SQLite over 350 turns)

A turn's time runs from the end of the turn before to its own end. Disk times decide: run it on the disk that runs
will lie on (--folder). They also drift by more than the aim within one run, so `growth` is measured on two runs at
once that take their turns alternately: one at its turns 10 to 50, the other at its last forty. It is the ratio of the
two medians less one, so that a slow moment of the disk hits both.
"""

from __future__ import annotations

import argparse
import itertools
import json
import operator
import shutil
import sqlite3
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, TypedDict

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph

from d2k_agent.agent import run_agent
from d2k_agent.config import RunConfig
from d2k_agent.models import ScriptedModel
from d2k_agent.records import Event, RunFolder, RunRecord, TurnClosed
from d2k_agent.toolbox import ToolCall, ToolResult

TEXT_BYTES = 4096
WINDOW = 40
AIMS = {"ms_a_turn": 8.0, "ratio_to_bare": 1.5, "growth": 0.10, "folder_mb": 10.0}


class NullTools:
    """One tool that does nothing."""

    def schemas(self) -> list[dict[str, Any]]:
        parameters = {"type": "object", "properties": {}}
        return [{"type": "function", "function": {"name": "null", "description": "Nothing.", "parameters": parameters}}]

    def file_before(self, call: ToolCall) -> str | None:
        """It changes no file."""
        return None

    def call(self, call: ToolCall, file_before: str | None = None) -> ToolResult:
        return ToolResult(call.id, call.name, "ok", "done", 0.0, {})


def text_of(turn: int) -> str:
    """4 KB that no other turn has."""
    word = f"turn {turn:06d} "
    return (word * (TEXT_BYTES // len(word) + 1))[:TEXT_BYTES]


def ours(folder: Path, turns: int) -> list[float]:
    """Drive the product; return the moments at which turns ended, the start first."""
    moments = [time.perf_counter()]
    drive(folder, turns, lambda: moments.append(time.perf_counter()))
    return moments


def drive(folder: Path, turns: int, ended: Callable[[], None]) -> None:
    """The product over `turns` scripted turns; `ended` is called after each."""
    config = RunConfig(task="null", model="scripted/benchmark", turns=turns)
    record = RunRecord(run_id="benchmark", config=config, task_slug="null", task_digest="", workloads=("only",))
    run = RunFolder.create(folder, record)
    replies = [{"content": text_of(turn), "tool_calls": [{"name": "null"}]} for turn in range(turns)]

    def watch(event: Event) -> None:
        if isinstance(event, TurnClosed):
            ended()

    run_agent(run, config, ScriptedModel(replies), NullTools(), watch)


class Alternating:
    """A run in a thread of its own that halts after `lead` turns, and then takes one turn for each `step()`."""

    def __init__(self, folder: Path, turns: int, lead: int) -> None:
        self._left = lead
        self._go, self._done = threading.Semaphore(0), threading.Semaphore(0)
        self._pool = ThreadPoolExecutor(1)
        self._run = self._pool.submit(self._drive, folder, turns)
        self._done.acquire()

    def _drive(self, folder: Path, turns: int) -> None:
        try:
            drive(folder, turns, self._ended)
        finally:
            self._done.release()

    def _ended(self) -> None:
        self._left -= 1
        if self._left <= 0:
            self._done.release()
            self._go.acquire()

    def step(self) -> float:
        """Milliseconds of the next turn."""
        before = time.perf_counter()
        self._go.release()
        self._done.acquire()
        return 1e3 * (time.perf_counter() - before)

    def finish(self) -> None:
        """Let the run end: the turn that halted was its last. Raises what the run raised."""
        self._go.release()
        self._run.result()
        self._pool.shutdown()


def growth(parent: Path, turns: int) -> float:
    """How much longer a turn takes at the end of a run of `turns` than at turn 10, as a fraction."""
    window = min(WINDOW, max(1, turns // 4))
    lead = min(10, turns - window)
    folder = Path(tempfile.mkdtemp(dir=parent))
    try:
        old = Alternating(folder / "old", turns, turns - window)
        young = Alternating(folder / "young", lead + window, lead)
        pairs = [(young.step(), old.step()) for _ in range(window)]
        young.finish()
        old.finish()
    finally:
        shutil.rmtree(folder)
    return statistics.median(late for _, late in pairs) / statistics.median(early for early, _ in pairs) - 1


class Counters(TypedDict):
    turn: int
    call: int


def bare(folder: Path, turns: int, synchronous: str = "FULL") -> list[float]:
    """Three nodes that count; the library's own setting is FULL."""
    moments = [time.perf_counter()]

    def close(state: Counters) -> dict[str, int]:
        moments.append(time.perf_counter())
        return {"turn": state["turn"] + 1}

    graph = StateGraph(Counters)
    graph.add_node("model", lambda state: {"call": state["call"] + 1})
    graph.add_node("tool", lambda state: {"call": state["call"]})
    graph.add_node("close", close)
    graph.add_edge(START, "model")
    graph.add_edge("model", "tool")
    graph.add_edge("tool", "close")
    graph.add_conditional_edges("close", lambda state: "model" if state["turn"] < turns else END)
    _invoke(graph, {"turn": 0, "call": 0}, folder, turns, synchronous)
    return moments


def unsynced(folder: Path, turns: int) -> list[float]:
    """The same without a sync a step."""
    return bare(folder, turns, "NORMAL")


class Messages(TypedDict):
    messages: Annotated[list[dict[str, str]], operator.add]


def naive(folder: Path, turns: int) -> list[float]:
    """The messages in the state: every checkpoint holds all of them."""
    moments = [time.perf_counter()]

    def tool(state: Messages) -> dict[str, Any]:
        moments.append(time.perf_counter())
        return {"messages": [{"role": "tool", "text": "done"}]}

    def model(state: Messages) -> dict[str, Any]:
        return {"messages": [{"role": "assistant", "text": text_of(len(state["messages"]))}]}

    graph = StateGraph(Messages)
    graph.add_node("model", model)
    graph.add_node("tool", tool)
    graph.add_edge(START, "model")
    graph.add_edge("model", "tool")
    graph.add_conditional_edges("tool", lambda state: "model" if len(state["messages"]) < 2 * turns else END)
    _invoke(graph, {"messages": []}, folder, turns, "FULL")
    return moments


def _invoke(graph: StateGraph[Any], start: dict[str, Any], folder: Path, turns: int, synchronous: str) -> None:
    folder.mkdir()
    with closing(sqlite3.connect(folder / "checkpoint.sqlite", check_same_thread=False)) as connection:
        connection.execute(f"PRAGMA synchronous={synchronous}")
        machine = graph.compile(checkpointer=SqliteSaver(connection))
        machine.invoke(
            start, {"configurable": {"thread_id": "run"}, "recursion_limit": 4 * turns + 10}, durability="sync"
        )


@dataclass(frozen=True)
class Sample:
    """One run of one subject. Milliseconds a turn over all turns, the median turn, the folder in megabytes."""

    ms_a_turn: float
    median_ms: float
    folder_mb: float


def measure(subject: Callable[[Path, int], list[float]], parent: Path, turns: int) -> Sample:
    """Run `subject` once in a fresh folder."""
    folder = Path(tempfile.mkdtemp(dir=parent)) / "run"
    try:
        moments = subject(folder, turns)
        size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    finally:
        shutil.rmtree(folder.parent)
    each = [1e3 * (after - before) for before, after in itertools.pairwise(moments)]
    return Sample(1e3 * (moments[-1] - moments[0]) / turns, statistics.median(each), size / 1e6)


def main() -> int:
    """Measure, print a table, return 0 where every aim is met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=350)
    parser.add_argument("--repeats", type=int, default=5, help="runs of ours and of bare, one after the other")
    parser.add_argument("--naive-repeats", type=int, default=1, help="runs of the naive loop (0: leave it out)")
    parser.add_argument("--folder", type=Path, help="where the runs lie (default: the system's temporary folder)")
    parser.add_argument("--json", type=Path, help="also write the samples here")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as parent:
        samples = collect(Path(parent), options.turns, options.repeats, options.naive_repeats)
        growths = [growth(Path(parent), options.turns) for _ in range(options.repeats)]
    results = judge(samples, growths)
    print(table(samples))
    print(f"\ngrowth, each pair of runs: {', '.join(f'{value:+.1%}' for value in growths)}\n")
    for name, value in results.items():
        print(f"{name:14s} {value:7.3f}   aim at most {AIMS[name]:g}   {'met' if value <= AIMS[name] else 'MISSED'}")
    if options.json:
        data = {"turns": options.turns, "aims": AIMS, "results": results, "growth": growths}
        data["samples"] = {name: [asdict(sample) for sample in own] for name, own in samples.items()}
        options.json.write_text(json.dumps(data, indent=2) + "\n")
    return 0 if all(value <= AIMS[name] for name, value in results.items()) else 1


def collect(parent: Path, turns: int, repeats: int, naive_repeats: int) -> dict[str, list[Sample]]:
    """The samples of every subject; those that are compared alternate."""
    measure(ours, parent, 10)
    samples: dict[str, list[Sample]] = {"ours": [], "bare": [], "unsynced": [], "naive": []}
    for _ in range(repeats):
        for subject in (bare, ours, unsynced):
            samples[subject.__name__].append(measure(subject, parent, turns))
    samples["naive"] = [measure(naive, parent, turns) for _ in range(naive_repeats)]
    return samples


def judge(samples: dict[str, list[Sample]], growths: list[float]) -> dict[str, float]:
    """The four numbers that have an aim: medians over the repeats."""
    pairs = zip(samples["ours"], samples["bare"], strict=True)
    return {
        "ms_a_turn": statistics.median(sample.ms_a_turn for sample in samples["ours"]),
        "ratio_to_bare": statistics.median(one.ms_a_turn / other.ms_a_turn for one, other in pairs),
        "growth": statistics.median(growths),
        "folder_mb": max(sample.folder_mb for sample in samples["ours"]),
    }


def table(samples: dict[str, list[Sample]]) -> str:
    """A line a subject: medians over its repeats, with the smallest and the largest of the time."""
    lines = ["subject   runs  ms a turn (least .. most)   median turn   folder"]
    for name, own in samples.items():
        if own:
            times = [sample.ms_a_turn for sample in own]
            middle = [statistics.median(getattr(s, field) for s in own) for field in ("median_ms", "folder_mb")]
            lines.append(
                f"{name:8s}  {len(own):4d}  {statistics.median(times):7.2f}  ({min(times):6.2f} .. {max(times):6.2f})  "
                f"{middle[0]:8.2f} ms  {middle[1]:7.2f} MB"
            )
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
