"""A run's trace by turns, in words that are bounded in length: what the page of a report unfolds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from d2k_agent.reports.progress import ProgressLines
from d2k_agent.reports.trace_text import TraceText

if TYPE_CHECKING:
    from d2k_agent.records import Event, Trace

BEGINNING, REST = "the beginning of every request", "after the last turn"
LEFT_OUT = "(left out of this page for its size)"


@dataclass(frozen=True)
class ToldTurn:
    """`title` is one line, for a turn that of the progress table; `text` what happened in it."""

    title: str
    text: str


def told_turns(trace: Trace, most_chars: int) -> tuple[ToldTurn, ...]:
    """The whole trace in order. Once `most_chars` characters are told, titles alone go on, and it is said."""
    teller, left, found = TraceText(), most_chars, []
    for title, events in _turns(trace):
        text = "\n".join(teller.event(event) for event in events) if left > 0 else ""
        left -= len(text)
        found.append(ToldTurn(title, text if left >= 0 else LEFT_OUT))
    return tuple(found)


def _turns(trace: Trace) -> Iterator[tuple[str, list[Event]]]:
    """Each turn with its line, and the events that belong to none."""
    progress = ProgressLines()
    title = BEGINNING
    events: list[Event] = []
    for event in trace.events:
        if title == BEGINNING and event.type == "model_call_started":
            yield title, events
            title, events = REST, []
        events.append(event)
        line = progress.feed(event)
        if event.type == "turn_closed":
            yield line or f"turn {event.turn}", events
            events = []
    if events:
        yield title, events
