"""The event log as the machine sees it: what was done already, and the conversation so far.

Covers: finding a finished call by its key, noticing one that was cut off, and the message list, kept in memory beside
the log and rebuilt from it when a run resumes. Does not cover: the file (records) or deciding anything (nodes).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from d2k_agent.agent.budgets import Taken
from d2k_agent.agent.cache_watch import CacheWatch
from d2k_agent.agent.compaction import Answered, without
from d2k_agent.agent.prompt import guidance_in
from d2k_agent.agent.repeats import Told
from d2k_agent.agent.replies import RequestedCall, requested_calls
from d2k_agent.models import Message
from d2k_agent.models.prefix import Prefix
from d2k_agent.records import (
    BudgetTold,
    Compacted,
    Confirmation,
    ConfirmationMeasured,
    ConfirmationReached,
    ConversationStarted,
    Event,
    EventLog,
    History,
    Measured,
    ModelCallFailed,
    ModelCallInterrupted,
    ModelCallStarted,
    Modelled,
    ModelReplied,
    Nudged,
    PolicyStopped,
    RunFinished,
    RunResumed,
    SelectionConfirmed,
    SelectionMade,
    Submission,
    Submitted,
    ToolCallInterrupted,
    ToolCallStarted,
    ToolFinished,
    TurnClosed,
    VerdictReached,
    confirmations,
    message_of,
    submissions,
)

Progress = Callable[[Event], None]


class Journal:
    """An index over a log, kept in step with it. Model calls are keyed by number, tool calls by turn and index.

    `messages` grows at its end, and else changes only where old results are shortened; whoever gets it must not change
    it. `prefix` has its digests, `places` a name for each of its items (the tools first), `answers` the tool results
    that stand whole in it. `shortened_tokens` were taken out of it since the last reply. `concluded` is what came of
    confirming the selection that was made last, None while nothing has. `history` has the run's points, None where
    nobody asks for them.
    """

    def __init__(self, log: EventLog, progress: Progress, history: History | None = None) -> None:
        self.messages: list[Message] = []
        self.tools: list[dict[str, Any]] | None = None
        self.call_ids: set[str] = set()
        self.told = Told()
        self.prefix = Prefix()
        self.places: list[str] = []
        self.answers: list[Answered] = []
        self.cache = CacheWatch()
        self.shortened_tokens = 0
        self.refused: set[str] = set()
        self.taken = Taken()
        self.history = history
        self.stopped: PolicyStopped | None = None
        self.finished: RunFinished | None = None
        self.selected: SelectionMade | None = None
        self.concluded: SelectionConfirmed | None = None
        self._log = log
        self._progress = progress
        self._replies: dict[int, ModelReplied] = {}
        self._requested: tuple[int, tuple[RequestedCall, ...]] = (0, ())
        self._model_in_flight: int | None = None
        self._tool_in_flight: tuple[int, int] | None = None
        self._files_before: dict[tuple[int, int], str | None] = {}
        self._results: dict[tuple[int, int], ToolFinished] = {}
        self._closed = 0
        self._nudged = 0
        self._judged: list[Event] = []
        self._judged_again: list[Event] = []
        for event in log.read():
            self._take(event)

    @property
    def size(self) -> int:
        """Bytes in the log."""
        return self._log.size

    def append(self, *events: Event, durable: bool = True) -> None:
        """Record `events`, then show them to whoever watches.

        An event that tells nothing but where the run stands need not be durable: the next durable one takes it along.
        """
        for event in self._log.append(*events, durable=durable):
            self._take(event)
            self._progress(event)

    def reply(self, call: int) -> ModelReplied | None:
        """The answer to model call `call`, None when it has none yet."""
        return self._replies.get(call)

    @property
    def longest_output(self) -> int:
        """The tokens of the longest reply, 0 where none was counted."""
        return max((reply.usage.output or 0 for reply in self._replies.values()), default=0)

    def requested(self, call: int) -> tuple[RequestedCall, ...]:
        """The tool calls that the answer to model call `call` requests."""
        if self._requested[0] != call:
            reply = self._replies[call]
            self._requested = (call, requested_calls(reply.message, reply.refused))
        return self._requested[1]

    def result(self, turn: int, index: int) -> ToolFinished | None:
        """The result of call `index` of turn `turn`, None when it has none yet."""
        return self._results.get((turn, index))

    def executed(self, turn: int, calls: int) -> int:
        """How many of the `calls` calls of turn `turn` were run."""
        results = (self._results.get((turn, index)) for index in range(calls))
        return sum(1 for result in results if result is not None and result.executed)

    def model_call_cut_off(self, call: int) -> bool:
        """True when model call `call` began and neither ended nor was noticed as interrupted."""
        return self._model_in_flight == call

    def tool_call_cut_off(self, turn: int, index: int) -> bool:
        """True when this tool call began and neither ended nor was noticed as interrupted."""
        return self._tool_in_flight == (turn, index)

    def file_before(self, turn: int, index: int) -> str | None:
        """What the file that this tool call changes was like before the call was made first; None when it was not."""
        return self._files_before.get((turn, index))

    def is_closed(self, turn: int) -> bool:
        """True when turn `turn` was recorded as complete."""
        return turn <= self._closed

    def is_nudged(self, call: int) -> bool:
        """True when reply `call` was answered with a nudge."""
        return call <= self._nudged

    def submissions(self) -> Sequence[Submission]:
        """Every submission, once."""
        return submissions(self._judged)

    def confirmation(self, sha256: str, attempt: int) -> Confirmation | None:
        """The outcome of attempt `attempt` to confirm a candidate, None when it was not completed."""
        found = confirmations(self._judged_again)
        return next((item for item in found if (item.sha256, item.attempt) == (sha256, attempt)), None)

    def _take(self, event: Event) -> None:
        self._extend(event)
        self._count(event)
        match event:
            case ConversationStarted():
                self.tools = event.tools
            case ModelCallStarted():
                self._model_in_flight = event.call
                self.cache.started(event)
            case ModelReplied():
                self._replies[event.call], self._model_in_flight = event, None
                self.call_ids.update(call["id"] for call in event.message.get("tool_calls", ()))
                self.cache.answered(event)
                self.shortened_tokens = 0
            case Compacted():
                self._compact(event)
                self.shortened_tokens += event.saved_tokens
            case ModelCallInterrupted() | ModelCallFailed():
                self._model_in_flight = None
            case Nudged():
                self._nudged = event.call
            case ToolCallStarted():
                self._tool_in_flight = (event.turn, event.index)
                self._files_before.setdefault(self._tool_in_flight, event.file_before)
            case ToolFinished():
                self._results[event.turn, event.index] = event
                self._tool_in_flight = None
                self.told.take(event)
            case ToolCallInterrupted():
                self._tool_in_flight = None
                self._judged.append(event)
            case TurnClosed():
                self._closed = event.turn
            case Submitted() | VerdictReached() | Measured() | Modelled():
                self._judged.append(event)
            case _:
                self._take_ending(event)

    def _count(self, event: Event) -> None:
        self.taken.feed(event)
        if self.history is not None:
            self.history.feed(event)

    def _extend(self, event: Event) -> None:
        """Add what the event says to the end of the conversation."""
        if isinstance(event, ConversationStarted):
            self.prefix.grow(event.tools)
            self.places.append("the tools")
            self.told.open(guidance_in(event.messages) or "")
        elif isinstance(event, ToolFinished):
            self.answers.append(Answered(len(self.messages), event.turn, event.call_id, event.name, event.text))
        for message in message_of(event):
            self.messages.append(message)
            self.prefix.grow(message)
            self.places.append(_place(event))

    def _compact(self, event: Compacted) -> None:
        first = min(item.index for item in self.answers if item.call_id in event.results)
        self.messages[first:] = [without(message, event.results) for message in self.messages[first:]]
        self.prefix.cut(first + 1)  # the tools are the first item
        for message in self.messages[first:]:
            self.prefix.grow(message)
        self.answers = [item for item in self.answers if item.call_id not in event.results]
        self.told.forget(event.results)
        self.cache.compacted(event, self.places[first + 1])

    def _take_ending(self, event: Event) -> None:
        match event:
            case PolicyStopped():
                self.stopped = event
            case SelectionMade():
                self.selected, self.concluded = event, None
            case ConfirmationMeasured() | ConfirmationReached() | RunResumed():
                self._judged_again.append(event)
            case SelectionConfirmed():
                self.concluded = event
                if event.confirmed is False and event.sha256 is not None:
                    self.refused.add(event.sha256)
            case RunFinished():
                self.finished = event
            case _:
                pass


def _place(event: Event) -> str:
    """What an item of the conversation is, in words."""
    match event:
        case ModelReplied():
            return f"reply {event.call}"
        case ToolFinished():
            return f"the answer to {event.name} in turn {event.turn}"
        case Nudged():
            return f"the nudge after reply {event.call}"
        case BudgetTold():
            return f"the budget left after turn {event.turn}"
        case _:
            return "the opening"
