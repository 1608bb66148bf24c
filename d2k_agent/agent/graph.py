"""The state machine as drawn: nodes, the ways between them, and nothing of what they do.

prepare -> call_model -> {run_tool | compile | evaluate | profile}* -> close_turn
        -> (call_model | select -> confirm -> (select | finalise))
nudge <- a reply without tool calls (no turn; the third in a row ends the run)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime
from langgraph.types import Command

from d2k_agent.agent import nodes
from d2k_agent.agent.journal import Journal
from d2k_agent.agent.parts import Parts
from d2k_agent.agent.state import State, Way, require_plain
from d2k_agent.records import StopReason

Node = Callable[[State, Parts], Way]

TOOL_NODES = ("run_tool", "compile", "evaluate", "profile")
_AFTER_A_TOOL = (*TOOL_NODES, "close_turn")

WAYS: dict[str, tuple[Node, tuple[str, ...]]] = {
    "prepare": (nodes.prepare, ("call_model",)),
    "call_model": (nodes.call_model, (*TOOL_NODES, "nudge", "select")),
    "nudge": (nodes.nudge, ("call_model", "select")),
    "run_tool": (nodes.execute, _AFTER_A_TOOL),
    "compile": (nodes.execute, _AFTER_A_TOOL),
    "evaluate": (nodes.evaluate, _AFTER_A_TOOL),
    "profile": (nodes.execute, _AFTER_A_TOOL),
    "close_turn": (nodes.close_turn, ("call_model", "select")),
    "select": (nodes.select, ("confirm",)),
    "confirm": (nodes.confirm, ("select", "finalise")),
    "finalise": (nodes.finalise, (END,)),
}
"""Each node with the nodes that may follow it."""

WHEN_STOPPED = {
    "prepare": "call_model",
    "call_model": "select",
    "nudge": "select",
    **dict.fromkeys(TOOL_NODES, "close_turn"),
}
"""Where a requested stop leads instead of the node: calls in hand still get an answer, so the history stays whole."""


def _recorded(name: str, state: State, journal: Journal) -> bool:
    """True where the log holds what the node would do: a stop leaves out only what was not done."""
    match name:
        case "prepare":
            return journal.tools is not None
        case "call_model":
            return journal.reply(state["call"] + 1) is not None
        case "nudge":
            return journal.is_nudged(state["call"])
        case _:
            return journal.result(state["turn"] + 1, state["index"]) is not None


class _Step(Protocol):
    def __call__(self, state: State, *, runtime: Runtime[Parts]) -> Command[str]: ...


def build_graph() -> StateGraph[State, Parts, State, State]:
    """The machine, not yet compiled: what it works with comes as context when it is invoked."""
    graph = StateGraph(State, context_schema=Parts)
    for name, (node, ways) in WAYS.items():
        graph.add_node(name, _step(name, node), destinations=ways)
    graph.add_edge(START, "prepare")
    return graph


def mermaid() -> str:
    """The machine as a Mermaid flow chart."""
    return build_graph().compile().get_graph().draw_mermaid()


def _step(name: str, node: Node) -> _Step:
    """`node` with what every step does: give way to a requested stop, and keep the state plain."""

    def step(state: State, *, runtime: Runtime[Parts]) -> Command[str]:
        parts = runtime.context
        parts.node = name
        parts.turns.entering(name, state["turn"])
        if name in WHEN_STOPPED and parts.run.stop_requested() and not _recorded(name, state, parts.journal):
            way = Way(WHEN_STOPPED[name], {"stop": str(StopReason.STOP_REQUESTED)})
        else:
            way = node(state, parts)
        update = {**way.update, "log_bytes": parts.journal.size}
        require_plain(name, update)
        # A Command costs a third of what a conditional edge does, and there is no key for it in the state.
        return Command(update=update, goto=way.next)

    return step
