"""The nodes of the state machine: one step each, safe to run twice.

Every node first asks the journal what is done already. A model call or a tool call that finished before a crash is
taken from the log; one that was cut off is recorded as interrupted and made again. Does not cover: the order of the
nodes (graph.py) or how a selection is made (selection.py).
"""

from __future__ import annotations

from collections.abc import Iterable

from langgraph.graph import END

from d2k_agent.agent import prompt
from d2k_agent.agent.confirming import confirmed
from d2k_agent.agent.parts import Parts, data_without
from d2k_agent.agent.replies import CALLS_PER_REPLY, RequestedCall, plain_json, repair
from d2k_agent.agent.selection import select as choose
from d2k_agent.agent.state import NUDGES_IN_A_ROW, State, Way
from d2k_agent.agent.submitting import CANDIDATE, VERDICT, record_submission
from d2k_agent.errors import ContextOverflow, D2KError, ModelError, ScriptEnded, UsageError
from d2k_agent.models import ModelReply
from d2k_agent.records import (
    BudgetTold,
    ConversationStarted,
    Event,
    ModelCallFailed,
    ModelCallInterrupted,
    ModelCallStarted,
    ModelReplied,
    Nudged,
    RunFinished,
    SelectionConfirmed,
    SelectionMade,
    StopReason,
    ToolCallInterrupted,
    ToolCallStarted,
    ToolFinished,
    TurnClosed,
)
from d2k_agent.toolbox import PathError, ToolCall, ToolResult, read_file

NODE_OF_TOOL = {"compile": "compile", "submit": "evaluate", "profile": "profile"}
"""Tools whose call is an evaluation job have a node of their own; every other tool, known or not, is `run_tool`'s."""

MOST_GUIDANCE_BYTES = 1 << 20
_ENDINGS = {ContextOverflow: StopReason.CONTEXT_OVERFLOW, ScriptEnded: StopReason.SCRIPT_ENDED}


def node_of(call: RequestedCall) -> str:
    """The node that answers `call`."""
    return NODE_OF_TOOL.get(call.name, "run_tool")


def prepare(state: State, parts: Parts) -> Way:
    """Begin the conversation."""
    if parts.journal.tools is None:
        schemas = plain_json(parts.toolbox.schemas())
        files = [path.name for path in parts.run.workspace.iterdir() if not path.name.startswith(".")]
        names = [schema["function"]["name"] for schema in schemas]
        compacts = parts.compactor is not None
        guidance = _guidance(parts, files) if parts.brief else None
        messages = prompt.opening(files, names, brief=parts.brief, compacts=compacts, guidance=guidance)
        if parts.budgets.shown:
            messages[-1]["content"] += f"\n\n{parts.budgets.announced()}"
        parts.journal.append(ConversationStarted(messages=[dict(message) for message in messages], tools=schemas))
    return Way("call_model")


def _guidance(parts: Parts, files: Iterable[str]) -> str | None:
    """The text of the guidance file in the workspace, read as a tool would, which follows no link out of it."""
    name = next((name for name in sorted(files) if name.startswith(prompt.GUIDANCE)), None)
    if name is None:
        return None
    try:
        data = read_file(str(parts.run.workspace), name, MOST_GUIDANCE_BYTES)
    except PathError:  # an agent that reads it is told why that does not go
        return None
    text: str = plain_json(data.decode(errors="replace"))
    return text


def call_model(state: State, parts: Parts) -> Way:
    """Get the next reply."""
    number = state["call"] + 1
    if parts.journal.reply(number) is None:
        reached = parts.budgets.reached(parts.journal.taken)
        if reached is not None:
            return Way("select", {"stop": str(reached)})
        try:
            _ask(parts, number, state["turn"] + 1)
        except (ContextOverflow, ScriptEnded) as ending:
            parts.journal.append(_failed(number, ending))
            return Way("select", {"stop": str(_ENDINGS[type(ending)])})
        except UsageError as error:
            parts.journal.append(_failed(number, error))
            if number == 1:
                raise
            # A key that worked and was revoked since: the run began, and nothing of it is lost.
            raise ModelError(f"{error}; then resume the run", error.unknown_attempts) from error
        except ModelError as error:
            parts.journal.append(_failed(number, error))
            raise
    calls = parts.journal.requested(number)
    if not calls:
        return Way("nudge", {"call": number})
    return Way(node_of(calls[0]), {"call": number, "nudges": 0, "calls": len(calls), "index": 0})


def _ask(parts: Parts, number: int, turn: int) -> None:
    """Get one reply. Where the run shortens old results, it does so when that pays, and when they do not fit."""
    journal, compactor = parts.journal, parts.compactor
    last = journal.reply(number - 1)
    planned = compactor.planned(journal.messages, journal.answers, number, turn, last) if compactor else None
    if planned is not None:
        journal.append(planned)
    while True:
        shorter = compactor.forced(journal.messages, journal.answers, number, turn) if compactor else None
        try:
            _ask_once(parts, number, turn, shortens=shorter is not None)
        except ContextOverflow as overflow:
            if shorter is None:
                raise
            journal.append(_failed(number, overflow), shorter)
        else:
            return


def _ask_once(parts: Parts, number: int, turn: int, *, shortens: bool) -> None:
    journal = parts.journal
    room = journal.longest_output if shortens else None
    parts.window.require_room(journal.messages, journal.reply(number - 1), journal.shortened_tokens, room)
    before: list[Event] = [ModelCallInterrupted(call=number)] if journal.model_call_cut_off(number) else []
    items = len(journal.prefix)
    start = ModelCallStarted(call=number, turn=turn, items=items, prefix_sha256=journal.prefix.digest(items))
    journal.append(*before, start, durable=False)
    reply = parts.model.complete(tuple(journal.messages), tuple(journal.tools or ()))
    replied = _replied(reply, number, turn, journal.call_ids)
    checked = journal.cache.check(replied, journal.prefix, journal.places)
    journal.append(replied, *([] if checked is None else [checked]))


def _failed(number: int, error: D2KError) -> ModelCallFailed:
    unknown = error.unknown_attempts
    return ModelCallFailed(call=number, reason=str(error), may_be_billed=unknown > 0, unknown_attempts=unknown)


def _replied(reply: ModelReply, number: int, turn: int, taken: set[str]) -> ModelReplied:
    repaired = repair(reply.message, reply.finish_reason, number, taken)
    return ModelReplied(
        call=number,
        turn=turn,
        message=repaired.message,
        finish_reason=reply.finish_reason,
        usage=reply.usage,
        cost_usd=reply.cost_usd,
        parameters=plain_json(reply.parameters),
        not_as_wished=reply.not_as_wished,
        seconds=reply.seconds,
        attempts=reply.attempts,
        unknown_attempts=reply.unknown_attempts,
        repairs=tuple(repaired.repairs),
        refused=repaired.refused,
        cache=reply.cache,
    )


def nudge(state: State, parts: Parts) -> Way:
    """Answer a reply without tool calls; the third in a row ends the run. No turn is counted.

    One that the context window cut is no word of the model that it is done.
    """
    nudges = state["nudges"] + 1
    reply = parts.journal.reply(state["call"])
    if nudges >= NUDGES_IN_A_ROW:
        stop = StopReason.CONTEXT_OVERFLOW if parts.window.cut(reply) else StopReason.FINISHED_BY_MODEL
        return Way("select", {"nudges": nudges, "stop": str(stop)})
    if not parts.journal.is_nudged(state["call"]):
        cut = reply is not None and reply.finish_reason == "length"
        parts.journal.append(Nudged(call=state["call"], text=prompt.NUDGE_CUT if cut else prompt.NUDGE))
    return Way("call_model", {"nudges": nudges})


def execute(state: State, parts: Parts) -> Way:
    """Execute the reply's next call; a tool that does not exist is one with an error for an answer."""
    return _execute(state, parts, submits=False)


def evaluate(state: State, parts: Parts) -> Way:
    """Execute the reply's next call, which hands in solution.py, and record the submission."""
    return _execute(state, parts, submits=True)


def _execute(state: State, parts: Parts, *, submits: bool) -> Way:
    turn, index = state["turn"] + 1, state["index"]
    calls = parts.journal.requested(state["call"])
    call = calls[index]
    if parts.journal.result(turn, index) is None:
        if call.refusal is None:
            _run(parts, turn, index, call, submits)
        else:
            parts.journal.append(_not_executed(turn, index, call, call.refusal))
    after = index + 1
    more = after < min(len(calls), CALLS_PER_REPLY)
    return Way(node_of(calls[after]) if more else "close_turn", {"index": after})


def _run(parts: Parts, turn: int, index: int, call: RequestedCall, submits: bool) -> None:
    before: list[Event] = []
    if parts.journal.tool_call_cut_off(turn, index):
        before.append(ToolCallInterrupted(turn=turn, index=index, call_id=call.id))
    made = ToolCall(call.id, call.name, call.arguments)
    file = parts.journal.file_before(turn, index) or parts.toolbox.file_before(made)
    started = ToolCallStarted(turn=turn, index=index, call_id=call.id, name=call.name, file_before=file)
    # What a file was like before must outlive the change.
    parts.journal.append(*before, started, durable=file is not None)
    result = parts.toolbox.call(made, file)
    submitted = record_submission(parts.run, turn, call.id, result.data) if submits else []
    text = plain_json(result.text)
    if parts.brief:
        text = parts.journal.told.without_repeats(call.name, text)
    parts.journal.append(*submitted, _finished(turn, index, call, result, text))


def _finished(turn: int, index: int, call: RequestedCall, result: ToolResult, text: str) -> ToolFinished:
    return ToolFinished(
        turn=turn,
        index=index,
        call_id=call.id,
        name=call.name,
        status=result.status,
        text=text,
        seconds=result.seconds,
        data=plain_json(data_without(result.data, VERDICT, CANDIDATE)),
    )


def _not_executed(turn: int, index: int, call: RequestedCall, why: str) -> ToolFinished:
    return ToolFinished(
        turn=turn, index=index, call_id=call.id, name=call.name, status="error", text=why, executed=False
    )


def close_turn(state: State, parts: Parts) -> Way:
    """Answer the calls that were not executed, so that the history stays whole, and count the turn."""
    turn = state["turn"] + 1
    if not parts.journal.is_closed(turn):
        calls = parts.journal.requested(state["call"])
        missing = [
            _not_executed(turn, index, call, call.refusal or prompt.STOPPED)
            for index, call in enumerate(calls)
            if parts.journal.result(turn, index) is None
        ]
        executed = parts.journal.executed(turn, len(calls))
        closed = TurnClosed(turn=turn, calls=len(calls), executed=executed)
        parts.journal.append(*missing, closed, durable=bool(missing))
    if turn >= parts.budgets.turns:
        return Way("select", {"turn": turn, "stop": state["stop"] or str(StopReason.TURN_LIMIT)})
    if state["stop"]:
        return Way("select", {"turn": turn})
    if _stopped_by_policy(parts, turn, state["call"] + 1):
        return Way("select", {"turn": turn, "stop": str(StopReason.STOP_POLICY)})
    if parts.budgets.shown and parts.journal.taken.told_after < turn:
        parts.journal.append(BudgetTold(turn=turn, text=parts.budgets.left(turn, parts.journal.taken)))
    return Way("call_model", {"turn": turn})


def _stopped_by_policy(parts: Parts, turn: int, next_call: int) -> bool:
    """Whether the run's stopping policy ends it after `turn`. Where a later reply is in the log, it did not."""
    journal = parts.journal
    if journal.stopped is not None and journal.stopped.turn == turn:
        return True
    if parts.stopping is None or journal.history is None or journal.reply(next_call) is not None:
        return False
    stopped = parts.stopping(journal.history.points[: turn + 1])
    if stopped is not None:
        journal.append(stopped)
    return stopped is not None


def select(state: State, parts: Parts) -> Way:
    """Choose the submission that stands for the run."""
    made = choose(parts.journal.submissions(), parts.workloads, parts.budgets.turns, parts.journal.refused)
    event = SelectionMade(selection=made.selection, provisional=made.provisional, why=made.why)
    if parts.journal.selected is None or parts.journal.selected.selection != made.selection:
        parts.journal.append(event)
    return Way("confirm")


def confirm(state: State, parts: Parts) -> Way:
    """Have the selection measured again where somebody can; one that is refused is chosen anew."""
    event = parts.journal.concluded
    if event is None:
        event = _confirmed(parts)
        parts.journal.append(event)
    return Way("select" if event.confirmed is False else "finalise")


def _confirmed(parts: Parts) -> SelectionConfirmed:
    selection = parts.journal.selected.selection if parts.journal.selected else None
    if selection is None:
        note = "nothing to confirm: no submission was measured and accepted"
        return SelectionConfirmed(sha256=None, confirmed=None, note=note)
    if parts.confirm is None:
        note = "not confirmed: nothing on this machine can measure the selection again"
        return SelectionConfirmed(sha256=selection.sha256, confirmed=None, note=note)
    return confirmed(parts, parts.confirm, selection)


def finalise(state: State, parts: Parts) -> Way:
    """Record the end."""
    if parts.journal.finished is None:
        selected = parts.journal.selected
        parts.journal.append(
            RunFinished(
                stop_reason=StopReason(state["stop"] or StopReason.STOP_REQUESTED),
                turns=state["turn"],
                selection=selected.selection if selected else None,
                provisional=selected.provisional if selected else None,
            )
        )
    return Way(END)
