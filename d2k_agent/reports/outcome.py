"""How a run ended: the outcome, what it cost, and where to look next."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from d2k_agent.contract.wording import counted
from d2k_agent.models import BUCKETS
from d2k_agent.reports.measured_text import measured_of_records, measured_text
from d2k_agent.reports.modelled_text import modelled_mean
from d2k_agent.reports.paths import command
from d2k_agent.reports.replayed_text import replayed_text
from d2k_agent.reports.tables import at_least, count, number, seconds, table
from d2k_agent.reports.unknown_text import unknown_text

if TYPE_CHECKING:
    from d2k_agent.records import Choice, Confirmation, Replayed, SelectionMade, Submission, Totals, Trace


def outcome_text(run_dir: Path, trace: Trace, replayed: Replayed | None = None) -> str:
    """The outcome of a finished run for a person; `replayed` is None unless the run replayed another."""
    finished = trace.finished
    ended = "is not finished" if finished is None else f"ended: {finished.stop_reason}"
    made = f"{counted(trace.turns, 'turn')} and {counted(len(trace.submissions), 'submission')}"
    why = unknown_text(trace)
    lines = [f"The run {ended}, after {made}.", *([] if why is None else [why]), ""]
    lines += _choices(run_dir, trace)
    if replayed is not None:
        lines += ["", replayed_text(replayed)]
    lines += ["", totals_table(trace.totals), "", f"Run folder: {run_dir}"]
    lines.append(f"Look into it with: {command('trace', 'show', run_dir)}")
    return "\n".join(lines)


def outcome_data(run_dir: Path, trace: Trace, replayed: Replayed | None = None) -> dict[str, Any]:
    """The outcome as one JSON object. Scripts may rely on run_dir, stop_reason, selection and provisional.

    `stop_detail` says what was not known, where that ended the run, else null.
    A selection has the `geomean_speedup` of its submission and a `confirmed_speedup`, null where it was not confirmed.
    A provisional candidate has the `modelled_ms` that ranked it, null where no model did.
    Of a replay, `divergences` counts results that differ, `numbers_only` those that differ in nothing but numbers, and
    `of_machine` those that differ only as the machines do.
    """
    finished = trace.finished
    totals = trace.totals
    made = _selection_made(trace)
    return {
        "run_dir": str(run_dir),
        "stop_reason": None if finished is None else finished.stop_reason.value,
        "stop_detail": unknown_text(trace),
        "selection": None if finished is None else _selection_data(finished.selection, trace),
        "provisional": None if finished is None else _choice_data(finished.provisional),
        "why": None if made is None else made.why,
        "turns": trace.turns,
        "usage": {name: getattr(totals.usage, name) for name in BUCKETS},
        "usage_lower_bound": totals.lower_bound,
        "cost_usd": totals.cost_usd,
        "cost_lower_bound": totals.cost_lower_bound,
        "divergences": None if replayed is None else sum(not item.numbers_only for item in replayed.divergences),
        "numbers_only": None if replayed is None else sum(item.numbers_only for item in replayed.divergences),
        "of_machine": None if replayed is None else len(replayed.of_machine),
    }


def totals_table(totals: Totals) -> str:
    """Tokens in four disjoint buckets and the cost; what nobody counted is unknown, a sum with a gap says so."""
    rows = [
        (name.replace("_", " "), at_least(count(getattr(totals.usage, name)), totals.lower_bound)) for name in BUCKETS
    ]
    cost = "unknown" if totals.cost_usd is None else f"{totals.cost_usd:.4f}"
    rows.append(("cost in US$", at_least(cost, totals.cost_lower_bound)))
    rows.append(("time waiting for the model", seconds(totals.seconds)))
    text = table(("tokens", "in all"), rows, ("in all",))
    if totals.unreported_replies:
        replies = counted(totals.replies, "reply", "replies")
        text += f"\n{totals.unreported_replies} of {replies} came without a complete count of tokens."
    if totals.usage.unsplit_input is not None:
        unsplit = counted(totals.usage.unsplit_input, "input token is", "input tokens are")
        priced = "" if totals.cost_usd is None else "; the cost counts such input as uncached"
        text += f"\n{unsplit} in no row: it was not reported what was cached{priced}."
    if totals.lost_attempts:
        text += f"\n{counted(totals.lost_attempts, 'request')} may have been billed although no answer came."
    return text


def _choices(run_dir: Path, trace: Trace) -> list[str]:
    finished, made = trace.finished, _selection_made(trace)
    if finished is None:
        return []
    why = f" ({made.why})" if made is not None else ""
    if finished.selection is not None:
        chosen = finished.selection
        line = f"Selection: {_where(run_dir, chosen)}, speedup {number(chosen.geomean_speedup)}{why}"
        return [line, *_confirmation(chosen, trace)]
    lines = [f"Selection: none{why}"]
    provisional = finished.provisional
    if provisional is not None and provisional.modelled_ms is not None:
        where = _where(run_dir, provisional)
        lines.append(f"Provisional, ranked by a model alone: {where}, {modelled_mean(provisional.modelled_ms)}")
    elif provisional is not None:
        lines.append(f"Provisional, unranked: {_where(run_dir, provisional)}")
    return lines


def _confirmation(chosen: Choice, trace: Trace) -> list[str]:
    """What came of measuring the selection again, and the table of the measurement that stands."""
    lines = []
    concluded = trace.confirmed
    if concluded is not None and concluded.sha256 == chosen.sha256:
        lines.append(f"Confirmation: {concluded.note}")
    judged: list[Submission | Confirmation] = [item for item in trace.submissions if item.sha256 == chosen.sha256]
    judged += [item for item in trace.confirmations if item.sha256 == chosen.sha256]
    for item in reversed(judged):
        if item.times is not None and item.geomean_speedup is not None:
            return [*lines, "", measured_text(measured_of_records(item.verdict, item.times))]
    return lines


def _where(run_dir: Path, choice: Choice) -> str:
    return f"turn {choice.turn}, {run_dir / 'candidates' / f'{choice.sha256}.py'}"


def _selection_made(trace: Trace) -> SelectionMade | None:
    for event in reversed(trace.events):
        if event.type == "selection_made":
            return event
    return None


def _selection_data(choice: Choice | None, trace: Trace) -> dict[str, Any] | None:
    if choice is None:
        return None
    concluded = trace.confirmed
    speedup = concluded.speedup if concluded is not None and concluded.sha256 == choice.sha256 else None
    return {**choice.model_dump(mode="json", exclude={"modelled_ms"}), "confirmed_speedup": speedup}


def _choice_data(choice: Choice | None) -> dict[str, Any] | None:
    return None if choice is None else choice.model_dump(mode="json")
