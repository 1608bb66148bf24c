"""How a replay differs from its recording, in lines: what the two machines explain, and what nothing explains."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from d2k_agent.contract.wording import counted

if TYPE_CHECKING:
    from d2k_agent.contract import Environment
    from d2k_agent.records import Replayed

MOST_DIVERGENCES = 10
_ANSWERS = {"submit": "verdict", "compile": "compile report", "profile": "profile"}
"""What a tool that asks the evaluator is answered with."""


def replayed_text(replayed: Replayed) -> str:
    """The comparison for a person, a line for each kind of difference, or one that there is none."""
    return "\n".join([*_part(replayed), *_machines(replayed), *_divergences(replayed)])


def _part(replayed: Replayed) -> list[str]:
    """A line where the replay did not reach the recording's end: what follows it is about a part only."""
    if replayed.replies >= replayed.recorded:
        return []
    return [f"Replay: {replayed.replies} of {counted(replayed.recorded, 'recorded turn')} replayed."]


def _machines(replayed: Replayed) -> list[str]:
    """Two lines where results differ because this is another machine: which two, and what differs for that reason."""
    before, now = replayed.before, replayed.now
    if before is None or now is None or not replayed.of_machine:
        return []
    kinds = Counter(_ANSWERS.get(item.tool, "result") for item in replayed.of_machine)
    *first, last = (
        counted(number, kind) + (_of_verdicts(before, now) if kind == "verdict" else "")
        for kind, number in kinds.items()
    )
    listed = f"{', '.join(first)} and {last}" if first else last
    verb = "differs" if len(replayed.of_machine) == 1 else "differ"
    return [
        f"Replay: recorded {_place(before, now)}; here candidates ran {_place(now, before)}.",
        f"Replay: so {listed} {verb}, and what was found is the same.",
    ]


def _place(this: Environment, other: Environment) -> str:
    """Where candidates ran, and what else of it is not as in the other place."""
    device = "the CPU" if this.device == "cpu" and other.device != "cpu" else this.device_name
    target = f" for target {this.target}" if this.target != other.target else ""
    versions = [
        f"{name} {getattr(this, name)}" for name in ("torch", "triton") if getattr(this, name) != getattr(other, name)
    ]
    return f"on {device}{target}" + (f" ({', '.join(versions)})" if versions else "")


def _of_verdicts(before: Environment, now: Environment) -> str:
    """What differs in a verdict that finds the same."""
    times = before.device_name != now.device_name and "cuda" in (before.device, now.device)
    compiled = (before.target, before.triton) != (now.target, now.triton)
    parts = ["times"] * times + ["compile report"] * compiled
    return f" ({' and '.join(parts)})" if parts else ""


def _divergences(replayed: Replayed) -> list[str]:
    divergences = replayed.divergences
    told = [item for item in divergences if not item.numbers_only]
    if not divergences:
        return [f"Replay: every {'other ' if replayed.of_machine else ''}tool answered as recorded."]
    numbers = len(divergences) - len(told)
    differ = counted(len(told), "result differs", "results differ")
    lines = [f"Replay: {differ} from the recorded ones, {numbers} more in nothing but numbers."]
    for item in told[:MOST_DIVERGENCES]:
        before, now = _first_difference(item.recorded, item.now)
        lines += [f"  turn {item.turn}, {item.tool}:", f"    recorded: {before}", f"    now:      {now}"]
    if len(told) > MOST_DIVERGENCES:
        lines.append(f"  {len(told) - MOST_DIVERGENCES} more left out")
    return lines


def _first_difference(recorded: str | None, now: str | None) -> tuple[str, str]:
    """The first line in which two results differ, of each."""
    if recorded is None or now is None:
        return ("(no result)" if recorded is None else "a result"), ("(no result)" if now is None else "a result")
    ours, theirs = recorded.splitlines(), now.splitlines()
    for before, after in zip(ours, theirs, strict=False):
        if before != after:
            return before[:160], after[:160]
    shared = min(len(ours), len(theirs))
    return [*ours, "(end)"][shared][:160], [*theirs, "(end)"][shared][:160]
