"""A recorded run's replies drive the real loop again, and what its tools answer differently is data.

Covers: the replaying model and the comparison of tool results. Does not cover: reading a trace (records). The replies
are the recorded ones whatever the tools answer now, so a run can differ from its recording without failing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from d2k_agent.contract.wording import counted
from d2k_agent.errors import ScriptEnded
from d2k_agent.models.protocol import Message, ModelReply, replies_so_far
from d2k_agent.models.usage import Usage

_UNIT = r"(?:ns|us|µs|ms|s|secs?|seconds?|min|mins|minutes?|h|hours?)"
_NUMBER = r"[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?"
_TIME = re.compile(
    rf"\d{{4}}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?"  # a date with a clock time
    rf"|\b\d?\d:\d\d(?::\d\d(?:\.\d+)?)?\b"  # a clock time
    rf"|(?<![\w.]){_NUMBER}\s?{_UNIT}\b"  # a duration with its unit
    rf"|(?:_ms|_us|_s|\bseconds|speedup)\b\W{{1,4}}{_NUMBER}"  # a field named after its unit
    rf"|(?<![\w.]){_NUMBER}(?:x|\s?(?:MHz|W))(?!\w)"  # how many times as fast, and the clock and power meanwhile
)
_COLUMNS = re.compile(r"(?<=\S) {2,}")
"""A table's columns are as wide as their widest number."""
_ANY_NUMBER = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?(?:[eE][-+]?\d+)?")


@dataclass(frozen=True)
class RecordedTurn:
    """One recorded reply and the results of its tool calls, in the order of the calls."""

    message: Message
    results: tuple[str, ...] = ()
    finish_reason: str | None = None


@dataclass(frozen=True)
class Divergence:
    """A tool result that is not what the recording holds. None stands for a result that one side does not have.

    `turn` counts replies from 1, `index` the calls of a reply from 0. `numbers_only` is True where the two texts differ
    in nothing but numbers, as they do when a check draws fresh inputs. Times, and the other numbers of a measurement,
    never make a divergence.
    """

    turn: int
    tool: str
    recorded: str | None
    now: str | None
    numbers_only: bool = False
    index: int = 0


class ReplayModel:
    """Gives the recorded replies again, one a call, and compares the tool results that came in between.

    Raises ScriptEnded after the last recorded reply. Its position is read from the conversation, so a replay resumes.
    Tokens and cost are unknown: no provider was asked.
    """

    def __init__(self, recorded: Sequence[RecordedTurn], name: str = "replay/inline") -> None:
        self.name = name
        self._recorded = tuple(recorded)
        self._divergences: dict[int, tuple[Divergence, ...]] = {}

    @property
    def divergences(self) -> tuple[Divergence, ...]:
        """What differed so far. Results of a last turn that no request followed are compared by `compare`."""
        return tuple(item for turn in sorted(self._divergences) for item in self._divergences[turn])

    def complete(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]]) -> ModelReply:
        """The recorded reply whose turn it is."""
        position = replies_so_far(messages)
        for turn, results in enumerate(_results(messages), start=1):
            if turn not in self._divergences and turn <= len(self._recorded):
                self._divergences[turn] = tuple(_differences(turn, self._recorded[turn - 1], results))
        if position >= len(self._recorded):
            given = counted(len(self._recorded), "reply", "replies")
            raise ScriptEnded(f"{self.name} holds {given} and all were given")
        turn_recorded = self._recorded[position]
        return ModelReply(dict(turn_recorded.message), turn_recorded.finish_reason, Usage.unknown(), None)


def compare(recorded: Sequence[RecordedTurn], messages: Sequence[Message]) -> tuple[Divergence, ...]:
    """Every divergence between a recording and a conversation that replayed it, turn by turn."""
    turns = zip(recorded, _results(messages), strict=False)
    return tuple(item for number, (turn, now) in enumerate(turns, start=1) for item in _differences(number, turn, now))


def _results(messages: Sequence[Message]) -> list[list[str]]:
    """The tool results that followed each reply, in order."""
    found: list[list[str]] = []
    for message in messages:
        if message.get("role") == "assistant":
            found.append([])
        elif message.get("role") == "tool" and found:
            found[-1].append(str(message.get("content") or ""))
    return found


def _differences(turn: int, recorded: RecordedTurn, now: Sequence[str]) -> Iterator[Divergence]:
    calls = recorded.message.get("tool_calls") or []
    for index in range(max(len(recorded.results), len(now))):
        before = recorded.results[index] if index < len(recorded.results) else None
        after = now[index] if index < len(now) else None
        tool = str(calls[index]["function"]["name"]) if index < len(calls) else "?"
        if before is None or after is None:
            yield Divergence(turn, tool, before, after, index=index)
        elif _without_times(before) != _without_times(after):
            yield Divergence(turn, tool, before, after, _without_numbers(before) == _without_numbers(after), index)


def _without_times(text: str) -> str:
    return _COLUMNS.sub(" ", _TIME.sub("<time>", text))


def _without_numbers(text: str) -> str:
    return _ANY_NUMBER.sub("<number>", _without_times(text))
