"""The events of a run: one small class each, with a tag. Message bodies stand here, once, and nowhere else.

Covers: what can happen in a run, as records that cannot be wrong. Does not cover: storing them (log.py), or what
follows from them (trace.py, totals.py, and the agent's journal).
"""

from __future__ import annotations

import sys
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from d2k_agent.contract.modelled import ModelledLatency
from d2k_agent.models import CachePlan, Usage
from d2k_agent.records.messages import RecordedMessage, RecordedTool
from d2k_agent.records.stop_reason import StopReason
from d2k_agent.records.verdicts import Times, VerdictRecord

QUEUED_S = "queued_s"
"""The entry of a tool result's data that says how many of the call's seconds were a wait for a GPU."""


class _Event(BaseModel):
    """`seq` (from 1) and `time` are stamped by the log."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    seq: int = 0
    time: datetime | None = None


class ConversationStarted(_Event):
    """The fixed beginning of every request: system prompt, first user message and the tools' schemas."""

    type: Literal["conversation_started"] = "conversation_started"
    messages: list[RecordedMessage]
    tools: list[RecordedTool]


class RunResumed(_Event):
    """Another process drives the run from here on. `checkpoint`: it went on from one, else from the log alone."""

    type: Literal["run_resumed"] = "run_resumed"
    pid: int
    checkpoint: bool


class RunInterrupted(_Event):
    """The process that drove the run gave up in `node`; the run can be resumed."""

    type: Literal["run_interrupted"] = "run_interrupted"
    node: str
    reason: str


class ModelCallStarted(_Event):
    """Request number `call` (from 1) goes out for turn `turn` (from 1).

    A reply that requests no tool is no turn: then the next request is for the same one.

    It begins with `items` items, the tools and the messages, whose digest is `prefix_sha256`; None in older runs.
    """

    type: Literal["model_call_started"] = "model_call_started"
    call: int
    turn: int
    items: int | None = None
    prefix_sha256: str | None = None


class ModelReplied(_Event):
    """The answer to request `call`.

    `message` is what goes back to the model. `repairs` says how it differs from what came: in words, empty where it
    does not. `refused` maps the ids of tool calls that are not executed to the sentence that the model gets instead.
    `unknown_attempts` counts attempts without an answer that may have been billed. `parameters` is what the request
    really carried, `not_as_wished` says which options it did not carry as they were given. `cache` is what it wanted
    of the provider's cache, None where nothing is cached.
    """

    type: Literal["model_replied"] = "model_replied"
    call: int
    turn: int
    message: RecordedMessage
    finish_reason: str | None
    usage: Usage
    cost_usd: float | None
    parameters: dict[str, Any] = {}
    not_as_wished: tuple[str, ...] = ()
    seconds: float
    attempts: int = 1
    unknown_attempts: int = 0
    repairs: tuple[str, ...] = ()
    refused: dict[str, str] = {}
    cache: CachePlan | None = None

    @property
    def calls_tools(self) -> bool:
        """True where the reply requests tool calls, and so is a turn."""
        return bool(self.message.get("tool_calls"))


class CacheChecked(_Event):
    """How many tokens request `call` should have read from the provider's cache, and how many it did.

    `why` says what changed, and where, when it read less; None otherwise.
    """

    type: Literal["cache_checked"] = "cache_checked"
    call: int
    turn: int
    expected: int
    observed: int
    why: str | None = None


class Compacted(_Event):
    """Before request `call` old tool results were shortened in one step; `results` maps call ids to what is left.

    Tokens are counted here and not by the provider: `saved_tokens` are left out of every later request, and
    `rewritten_tokens` stand behind the first change, so that they are written into the cache anew, once. `why` is the
    arithmetic behind it.
    """

    type: Literal["compacted"] = "compacted"
    call: int
    turn: int
    results: dict[str, str]
    saved_tokens: int
    rewritten_tokens: int
    why: str


class ModelCallFailed(_Event):
    """Request `call` was refused for good. `may_be_billed`: the provider may have worked before it failed.

    `unknown_attempts` says how often, where that is known.
    """

    type: Literal["model_call_failed"] = "model_call_failed"
    call: int
    reason: str
    may_be_billed: bool
    unknown_attempts: int = 0


class ModelCallInterrupted(_Event):
    """Request `call` was in flight when the process died: its usage is unknown, and it is asked again."""

    type: Literal["model_call_interrupted"] = "model_call_interrupted"
    call: int


class Nudged(_Event):
    """The user message that answers reply `call`, which requested no tool."""

    type: Literal["nudged"] = "nudged"
    call: int
    text: str


class BudgetTold(_Event):
    """The user message that says what is left after turn `turn`, where the model is told of its budget."""

    type: Literal["budget_told"] = "budget_told"
    turn: int
    text: str


class ToolCallStarted(_Event):
    """Call number `index` (from 0) of the turn's reply begins.

    `file_before`: the SHA-256 of the file that it changes, for calls that must not change it twice.
    """

    type: Literal["tool_call_started"] = "tool_call_started"
    turn: int
    index: int
    call_id: str
    name: str
    file_before: str | None = None


class ToolCallInterrupted(_Event):
    """A tool call was in flight when the process died: it is made again, so its effects may have happened twice."""

    type: Literal["tool_call_interrupted"] = "tool_call_interrupted"
    turn: int
    index: int
    call_id: str


class ToolFinished(_Event):
    """The one result of a tool call, as the model sees it. `executed` is False where nothing was run."""

    type: Literal["tool_finished"] = "tool_finished"
    turn: int
    index: int
    call_id: str
    name: str
    status: Literal["ok", "error", "timed_out"]
    text: str
    executed: bool = True
    seconds: float = 0.0
    data: dict[str, Any] = {}

    @field_validator("data")
    @classmethod
    def _with_a_possible_wait(cls, data: dict[str, Any]) -> dict[str, Any]:
        _wait_s(data)
        return data


def queued_s(event: ToolFinished) -> float:
    """How many of the call's seconds were a wait for a GPU: finite, 0 where none is recorded.

    Raises ValueError for a wait that is none; a ToolFinished that was read from a log never has one.
    """
    return _wait_s(event.data)


def _wait_s(data: dict[str, Any]) -> float:
    value = data.get(QUEUED_S, 0.0)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= sys.float_info.max:
        raise ValueError(f"{QUEUED_S} is {value!r:.40}, which is no number of seconds")
    return float(value)


class _OfSubmission(_Event):
    """The three fields are the submission's key: the same key twice is one submission."""

    turn: int
    call_id: str
    sha256: str


class Submitted(_OfSubmission):
    """A candidate was handed in."""

    type: Literal["submitted"] = "submitted"


class VerdictReached(_OfSubmission):
    """What was found on it. No time stands in this event."""

    type: Literal["verdict_reached"] = "verdict_reached"
    verdict: VerdictRecord


class Measured(_OfSubmission):
    """What was measured on it; absent where nothing was."""

    type: Literal["measured"] = "measured"
    times: Times


class Modelled(_OfSubmission):
    """What a model says of its latency where nothing was measured: no measurement, and no score rests on it."""

    type: Literal["modelled"] = "modelled"
    modelled: ModelledLatency


class EvaluationTook(_OfSubmission):
    """How long each step of the checking took, in seconds."""

    type: Literal["evaluation_took"] = "evaluation_took"
    seconds: dict[str, float]


class TurnClosed(_Event):
    """Every call of the turn's reply has its result. `calls` were requested, `executed` were run."""

    type: Literal["turn_closed"] = "turn_closed"
    turn: int
    calls: int
    executed: int


class PolicyStopped(_Event):
    """After turn `turn` a stopping policy ends the run. The model is told nothing of it.

    `policy` is the policy's text, `why` a sentence for the operator, `numbers` what was compared, by name.
    """

    type: Literal["policy_stopped"] = "policy_stopped"
    turn: int
    policy: str
    why: str
    numbers: dict[str, float] = {}


class Choice(BaseModel):
    """A submission that was chosen. `modelled_ms` is what ranked it where nothing was measured, else None."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    sha256: str
    turn: int
    call_id: str
    geomean_speedup: float | None = None
    modelled_ms: float | None = None


class SelectionMade(_Event):
    """Which submission stands for the run.

    Without an eligible one, `provisional` names a correct one: that of the lowest modelled latency, else the last.
    """

    type: Literal["selection_made"] = "selection_made"
    selection: Choice | None
    provisional: Choice | None
    why: str


class _OfConfirmation(_Event):
    """The selected candidate is judged once more, under a fresh seed. `attempt` counts from 1."""

    sha256: str
    attempt: int


class ConfirmationMeasured(_OfConfirmation):
    """What was measured; absent where nothing was. Recorded before what was found, which completes the attempt."""

    type: Literal["confirmation_measured"] = "confirmation_measured"
    times: Times


class ConfirmationReached(_OfConfirmation):
    """What was found. No time stands in this event."""

    type: Literal["confirmation_reached"] = "confirmation_reached"
    verdict: VerdictRecord


class ConfirmationTook(_OfConfirmation):
    """How long each step of the checking took, in seconds."""

    type: Literal["confirmation_took"] = "confirmation_took"
    seconds: dict[str, float]


class SelectionConfirmed(_Event):
    """The selection was measured again (`confirmed` True), refused (False), or nobody could measure it (None).

    `speedup` is the confirmed one, None unless `confirmed`; `note` says in a sentence what came of it.
    """

    type: Literal["selection_confirmed"] = "selection_confirmed"
    sha256: str | None
    confirmed: bool | None
    note: str
    speedup: float | None = None


class RunFinished(_Event):
    """The last event of a run."""

    type: Literal["run_finished"] = "run_finished"
    stop_reason: StopReason
    turns: int
    selection: Choice | None
    provisional: Choice | None


Event = (
    ConversationStarted
    | RunResumed
    | RunInterrupted
    | ModelCallStarted
    | ModelReplied
    | CacheChecked
    | Compacted
    | ModelCallFailed
    | ModelCallInterrupted
    | Nudged
    | BudgetTold
    | ToolCallStarted
    | ToolCallInterrupted
    | ToolFinished
    | Submitted
    | VerdictReached
    | Measured
    | Modelled
    | EvaluationTook
    | TurnClosed
    | PolicyStopped
    | SelectionMade
    | ConfirmationMeasured
    | ConfirmationReached
    | ConfirmationTook
    | SelectionConfirmed
    | RunFinished
)
TaggedEvent = Annotated[Event, Field(discriminator="type")]
