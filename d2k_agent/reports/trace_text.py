"""A run's events in words, one event at a time, in the order in which they were recorded."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from d2k_agent.contract.wording import counted
from d2k_agent.reports.cache_text import check_text, compacted_text
from d2k_agent.reports.measured_text import measured_of_records, measured_text
from d2k_agent.reports.modelled_text import modelled_line
from d2k_agent.reports.tables import count, milliseconds, number, seconds

if TYPE_CHECKING:
    from d2k_agent.records.events import Choice, Event, ModelReplied
    from d2k_agent.records.verdicts import Times

MOST_BODY_CHARS = 2000
_INDENT = "    "


class TraceText:
    """Tells a run's events one after another: where a confirmation is complete, the table of what it measured too.

    A submission's table stands in what the model was answered.
    """

    def __init__(self) -> None:
        self._measured: dict[tuple[str, int], Times] = {}

    def event(self, event: Event) -> str:
        """The next event as event_text() tells it, with what earlier ones add."""
        text = event_text(event)
        match event.type:
            case "run_resumed":
                self._measured.clear()  # of an attempt that was cut off
            case "confirmation_measured":
                self._measured[event.sha256, event.attempt] = event.times
            case "confirmation_reached":
                times = self._measured.pop((event.sha256, event.attempt), None)
                if times is not None and times.measured:
                    text += _indented(measured_text(measured_of_records(event.verdict, times)).splitlines())
        return text


def event_text(event: Event) -> str:
    """One line that says what happened, and below it, indented, what was said. Long bodies are cut, and it is said."""
    # Local, as the time in a run's name is; --json keeps the recorded one with its zone.
    stamp = "" if event.time is None else event.time.astimezone().strftime("%H:%M:%S ")
    return f"{stamp}{event.seq:>5}  {_text(event)}"


def _text(event: Event) -> str:
    match event.type:
        case "conversation_started":
            names = ", ".join(tool["function"]["name"] for tool in event.tools)
            return f"conversation started with the tools {names}" + "".join(map(_message, event.messages))
        case "run_resumed":
            return f"resumed by process {event.pid}"
        case "run_interrupted":
            return f"interrupted in {event.node}: {event.reason}"
        case "model_call_started":
            return f"model call {event.call}"
        case "model_replied":
            told = _reply(event) + _message(event.message)
            return told + (_body(f"cache entries live {event.cache.why}") if event.cache and event.cache.why else "")
        case "cache_checked":
            return check_text(event)
        case "compacted":
            return compacted_text(event)
        case "model_call_failed":
            return f"model call {event.call} failed: {event.reason}"
        case "model_call_interrupted":
            return f"model call {event.call} was interrupted; its usage is unknown and it is made again"
        case "nudged":
            return "the model was told to go on" + _body(event.text)
        case "budget_told":
            return f"turn {event.turn}: the model was told its budget" + _body(event.text)
        case _:
            return _step_text(event)


def _step_text(event: Event) -> str:
    match event.type:
        case "tool_call_started":
            return f"turn {event.turn}: {event.name} started"
        case "tool_call_interrupted":
            return f"turn {event.turn}: call {event.index + 1} was interrupted and is made again"
        case "tool_finished":
            done = f"{event.name} {event.status}" + (f" ({seconds(event.seconds)})" if event.executed else ", not run")
            return f"turn {event.turn}: {done}" + _body(event.text)
        case "submitted":
            return f"turn {event.turn}: submitted {event.sha256[:12]}"
        case "verdict_reached":
            return f"turn {event.turn}: {event.sha256[:12]} is {event.verdict.status}"
        case "measured":
            return f"turn {event.turn}: {event.sha256[:12]} {_times(event.times)}"
        case "evaluation_took":
            return f"turn {event.turn}: evaluated in {seconds(_took(event.seconds))}"
        case "turn_closed":
            return f"turn {event.turn} closed: {counted(event.calls, 'call')}, {event.executed} run"
        case _:
            return _ending_text(event)


def _ending_text(event: Event) -> str:
    match event.type:
        case "policy_stopped":
            return f"turn {event.turn}: the stopping policy {event.policy} ends the run: {event.why}"
        case "selection_made":
            return f"selected {_choice(event.selection)}, provisional {_choice(event.provisional)}: {event.why}"
        case "modelled":
            return f"{event.sha256[:12]}: {modelled_line(event.modelled)}"
        case "confirmation_measured":
            return f"confirmation {event.attempt}: {event.sha256[:12]} {_times(event.times)}"
        case "confirmation_reached":
            return f"confirmation {event.attempt}: {event.sha256[:12]} is {event.verdict.status}"
        case "confirmation_took":
            return f"confirmation {event.attempt}: judged in {seconds(_took(event.seconds))}"
        case "selection_confirmed":
            return f"confirmation: {event.note}"
        case "run_finished":
            return f"finished: {event.stop_reason} after {counted(event.turns, 'turn')}"
        case _:
            return f"{event.type}"


def _times(times: Times) -> str:
    latencies = [
        f"{item.label} {milliseconds(item.measurement.mean_ms)}" for item in times.workloads if item.measurement
    ]
    drift = "" if times.drift is None else f"; the baseline moved by {100 * times.drift:.1f} %"
    impossible = f"; impossible: {', '.join(times.impossible)}" if times.impossible else ""
    told = f"speedup {number(times.geomean_speedup)}" + f" ({', '.join(latencies)})" * bool(latencies)
    return told + drift + impossible


def _took(steps: dict[str, float]) -> float:
    """Parts have a dot in their name; the report's own seconds are a part of the step "compile"."""
    return sum(value for step, value in steps.items() if "." not in step and step != "compile_report")


def _reply(event: ModelReplied) -> str:
    """A reply that asks for no tool is no turn, so it has no number of one."""
    usage = event.usage
    tokens = (
        f"{count(usage.uncached_input)} uncached, {count(usage.cache_write)} cache write, "
        f"{count(usage.cache_read)} cache read, {count(usage.output)} output"
        if usage.known
        else "unknown"
    )
    turn, note = (f"turn {event.turn}: ", "") if event.calls_tools else ("", " (no turn: it asks for no tool)")
    return f"{turn}reply {event.call}{note} in {seconds(event.seconds)}; tokens: {tokens}"


def _choice(choice: Choice | None) -> str:
    return "none" if choice is None else f"{choice.sha256[:12]} of turn {choice.turn}"


def _message(message: dict[str, Any]) -> str:
    content = message.get("content") or ""
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
    parts = [_body(text, f"{message.get('role', '?')}: ")] if text else []
    for call in message.get("tool_calls") or ():
        function = call.get("function") or {}
        parts.append(_body(_arguments(function.get("arguments")), f"-> {function.get('name')} "))
    return "".join(parts)


def _arguments(raw: Any) -> str:
    """A call's arguments, one a line, so that source text in them reads as source text."""
    try:
        arguments = json.loads(raw or "{}")
    except (TypeError, ValueError):
        return str(raw)
    if not isinstance(arguments, dict):
        return str(raw)
    return "\n".join(f"{name}: {value}" for name, value in arguments.items())


def _body(text: str, before: str = "") -> str:
    kept = text[:MOST_BODY_CHARS]
    cut = len(text) - len(kept)
    lines = f"{before}{kept}".splitlines() or [before]
    if cut:
        lines.append(f"[{counted(cut, 'more character')}; --json prints them]")
    return _indented(lines)


def _indented(lines: Iterable[str]) -> str:
    return "".join(f"\n{_INDENT}{line}" for line in lines)
