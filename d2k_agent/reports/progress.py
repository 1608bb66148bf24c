"""A run as it goes: events folded into one line a turn and the words for the step in flight."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from d2k_agent.contract.wording import counted
from d2k_agent.reports.cache_text import cause_of, check_text
from d2k_agent.reports.tables import count, number, seconds

if TYPE_CHECKING:
    from d2k_agent.contract import VerdictStatus
    from d2k_agent.models import Usage
    from d2k_agent.records.events import CacheChecked, Event, ModelReplied, ToolFinished

HEADER = f"{'turn':>4}  {'tools':<30}  {'outcome':<15}  {'best so far':<13}  {'tokens':>12}  time"


class ProgressLines:
    """Fed with a run's events in order. `status` says what is being done now, empty between steps."""

    def __init__(self) -> None:
        self.status = ""
        self._verdicts: dict[tuple[int, str], VerdictStatus] = {}
        self._speedups: dict[tuple[int, str], float] = {}
        """By turn and call: one that was made again counts once."""
        self._last: datetime | None = None
        self._cause: tuple[str, bool] | None = None
        """Why a request read less from the cache than expected, as it was told last."""
        self._start_turn(None)

    def _start_turn(self, begun: datetime | None) -> None:
        self._begun = begun
        self._earlier_s = 0.0
        """What the turn had taken when the run was interrupted."""
        self._tools: list[str] = []
        self._told: list[str] = []
        """What failed in the turn, in order, and `_success`, the last good word of the evaluator."""
        self._success = ""
        self._tokens: int | None = None

    def feed(self, event: Event) -> str | None:
        """Take note of `event`; the line to print for it, or None."""
        line = self._feed(event)
        self._last = event.time or self._last
        return line

    def _feed(self, event: Event) -> str | None:
        match event.type:
            case "model_call_started":
                self.status = f"turn {event.turn}: waiting for the model"
                if self._begun is None:
                    self._begun = event.time
            case "model_replied":
                self._replied(event)
            case "tool_call_started":
                self.status = f"turn {event.turn}: {event.name}"
            case "tool_finished":
                self._finished(event)
            case "verdict_reached":
                self._forget(event.turn, event.call_id)
                status = event.verdict.status
                self._verdicts[event.turn, event.call_id] = status
                self._judged(status.value, failed=not status.acceptable)
            case "measured":
                speedup = event.times.geomean_speedup
                if event.times.impossible:
                    self._told.append("impossible latency")
                elif speedup is not None:
                    self._speedups[event.turn, event.call_id] = speedup
            case "tool_call_interrupted":
                self._forget(event.turn, event.call_id)
            case "turn_closed":
                line = self._line(event.turn, event.time)
                self._start_turn(None)
                return line
            case _:
                return self._remark(event)
        return None

    def _replied(self, event: ModelReplied) -> None:
        self.status = ""
        self._tokens = _total(event.usage)

    def _finished(self, event: ToolFinished) -> None:
        self.status = ""
        self._tools.append(event.name)
        if not event.executed:
            self._told.append(f"{event.name} not run")
        elif event.status != "ok":
            self._told.append(f"{event.name} {event.status}")
        elif event.name != "submit" and "outcome" in event.data:  # what came of a submission, its verdict has told
            word = str(event.data["outcome"])
            failed = word not in ("untimed", "passed", "profiled")
            self._judged("compiles" if word == "untimed" else word, failed=failed)

    def _forget(self, turn: int, call_id: str) -> None:
        """Take back what was recorded of a call before it was cut off."""
        status = self._verdicts.pop((turn, call_id), None)
        self._speedups.pop((turn, call_id), None)
        if status is not None and status.value in self._told:
            self._told.remove(status.value)

    def _judged(self, word: str, *, failed: bool) -> None:
        """The evaluator's word takes the place of an earlier success: what counts is where the turn ended."""
        self._told = [told for told in self._told if told != self._success]
        self._success = "" if failed else word
        self._told.append(word)

    def _outcome(self) -> str:
        """Everything that failed in the turn, and where its last evaluation ended."""
        times = {told: self._told.count(told) for told in self._told}
        return ", ".join(told if number == 1 else f"{told} x{number}" for told, number in times.items()) or "ok"

    def _line(self, turn: int, ended: datetime | None) -> str:
        session_s = _between_s(self._begun, ended)
        took = None if session_s is None else self._earlier_s + session_s
        return (
            f"{turn:>4}  {_short(', '.join(self._tools), 30):<30}  {self._outcome():<15}  "
            f"{self._best_text():<13}  {count(self._tokens):>12}  {seconds(took)}"
        )

    def _best_text(self) -> str:
        if self._speedups:
            return f"{number(max(self._speedups.values()))}x"
        correct = sum(status.acceptable for status in self._verdicts.values())
        return f"{correct} correct" if correct else "-"

    def _missed(self, event: CacheChecked) -> str | None:
        """A provider that keeps half of every request does so at every turn: that is told once."""
        if event.why is None or cause_of(event) == self._cause:
            return None
        self._cause = cause_of(event)
        return check_text(event)

    def _resumed(self, now: datetime | None) -> str:
        """Nobody worked since the last event: that is no time of the turn."""
        away_s = _between_s(self._last, now)
        if self._begun is not None:
            self._earlier_s += _between_s(self._begun, self._last) or 0.0
            self._begun = now
        return "resumed" if away_s is None else f"resumed; the {seconds(away_s)} since the last event count for no turn"

    def _remark(self, event: Event) -> str | None:
        match event.type:
            case "run_resumed":
                return self._resumed(event.time)
            case "model_call_interrupted":
                return "a model call was in flight when the run ended; it is made again, its tokens stay unknown"
            case "nudged":
                self._start_turn(None)
                return "the model asked for no tool and was told to go on"
            case "cache_checked":
                return self._missed(event)
            case "compacted":
                return (
                    f"{counted(len(event.results), 'old result')} became a digest: each later request has "
                    f"{count(event.saved_tokens)} tokens less, {count(event.rewritten_tokens)} are written anew, once"
                )
            case "model_call_failed":
                return f"the model call failed: {event.reason}" if event.may_be_billed else event.reason
            case "policy_stopped":
                return f"the stopping policy {event.policy} ends the run: {event.why}"
            case "selection_made":
                self.status = "selecting" if event.selection is None else f"confirming turn {event.selection.turn}"
            case "selection_confirmed":
                self.status = ""
                return None if event.sha256 is None else f"{event.sha256[:12]}: {event.note}"
            case "run_finished":
                self.status = ""
        return None


def _between_s(begun: datetime | None, ended: datetime | None) -> float | None:
    return None if begun is None or ended is None else (ended - begun).total_seconds()


def _total(usage: Usage) -> int | None:
    parts = (usage.uncached_input, usage.cache_write, usage.cache_read, usage.output)
    return None if None in parts else sum(part for part in parts if part is not None)


def _short(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 3] + "..."
