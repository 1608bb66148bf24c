"""What the state machine saves after every step: ids, counters and offsets, nothing else.

Covers: the state, its beginning, the guard that keeps it plain, and how many steps a run can take. Bodies stand in the
event log; a state that held them would grow the checkpoints with the square of the turns.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypedDict

from d2k_agent.agent.replies import CALLS_PER_REPLY

NUDGES_IN_A_ROW = 3
_LARGEST = 2**63 - 1


class State(TypedDict):
    """Where a run stands."""

    turn: int
    """Turns completed."""
    call: int
    """Number of the last model call that was answered."""
    nudges: int
    """Replies without a tool call in a row."""
    calls: int
    """Tool calls that the reply in hand requests."""
    index: int
    """The next of them, from 0."""
    stop: str | None
    """Why the run ends, once it does."""
    log_bytes: int
    """Size of the event log that this state rests on."""


@dataclass(frozen=True)
class Way:
    """What a node answers: the node to run next, and what changes in the state."""

    next: str
    update: dict[str, int | str | None] = field(default_factory=dict)


def beginning() -> State:
    """The state of a run in which nothing has happened."""
    return State(turn=0, call=0, nudges=0, calls=0, index=0, stop=None, log_bytes=0)


def require_plain(node: str, update: Mapping[str, Any]) -> None:
    """Raise TypeError naming node, key and value when an update is no plain JSON scalar of the state.

    The checkpointer would store some such values and give back something else.
    """
    for key, value in update.items():
        if key not in State.__annotations__:
            raise TypeError(f"node {node} set {key!r}, which is no part of the state")
        plain = value is None or type(value) is str or (type(value) is int and abs(value) <= _LARGEST)
        if not plain or (type(value) is str and not value.isascii()):
            raise TypeError(f"node {node} set {key} to {value!r}: the state holds ids, counters and offsets only")


def rests_on(state: Mapping[str, Any], log_bytes: int) -> bool:
    """True when a log of `log_bytes` bytes holds all that the state was made from, and it is one."""
    whole = state.keys() == State.__annotations__.keys() and isinstance(state["stop"], str | None)
    counters = (value for key, value in state.items() if key != "stop")
    return whole and all(type(value) is int for value in counters) and bool(state["log_bytes"] <= log_bytes)


def recursion_limit(turns: int) -> int:
    """The most steps that a run of `turns` turns can take, plus one that LangGraph wants."""
    nudged = 2 * (NUDGES_IN_A_ROW - 1)
    turn = 1 + CALLS_PER_REPLY + 1 + nudged
    ending = 2 * NUDGES_IN_A_ROW + 2 * (turns * CALLS_PER_REPLY + 1) + 1
    return 1 + turns * turn + ending + 1
