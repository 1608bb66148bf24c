"""Stopping policies over recorded runs, as a table and as the JSON object that scripts read."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from d2k_agent.contract.wording import counted
from d2k_agent.records import Saved
from d2k_agent.reports.curve_report import Circumstances, RunReport
from d2k_agent.reports.curve_text import apart_text, told_once, where_text
from d2k_agent.reports.tables import UNKNOWN, table

SHARES = {
    "tokens_percent": "tokens saved",
    "usd_percent": "US$ saved",
    "gpu_percent": "GPU time saved",
    "score_percent": "score kept",
}
"""The fields of Saved as columns are headed."""
HEADER = ("policy", "run", "stops after", *SHARES.values())
METHOD = (
    "A policy sees after each turn what was recorded until then, and ends the run the first time that it says so. "
    "Saved: the share of what the whole run took, unknown where a part of what is saved was not counted, and 0 at its "
    "end, which a stop after the last turn is too. Score kept: "
    "the score after that turn in percent of the final one, both as `report` has them; a candidate that was refused "
    "when judged again is in neither."
)
NOT_KNOWN = Saved(None, None, None, None)


@dataclass(frozen=True)
class Kind(Circumstances):
    """What runs must have in common before their shares are averaged: also who wrote, what it was told, and how long it
    could go on (`stop_policy`: the run's own, None where it had none)."""

    model: str
    levels: str
    turns: int
    stop_policy: str | None


@dataclass(frozen=True)
class PolicyReplay:
    """A policy over a run that is over.

    `after_turn` is None where it let the run go on, and it is `undecided` where it could not tell at some turn of that
    run, or where another policy had ended it before. A stop after the last turn is no `early` one and saves nothing.
    `why` and `numbers` are those of the decision that this rests on.
    """

    policy: str
    run: RunReport
    after_turn: int | None
    undecided: bool
    why: str
    numbers: Mapping[str, float]

    @property
    def early(self) -> bool:
        """Whether it ends the run before its last turn."""
        return self.after_turn is not None and self.after_turn < self.run.curve.end.turn

    @property
    def saved(self) -> Saved:
        """What it would have saved and kept of the run: nobody knows where it could not tell."""
        return NOT_KNOWN if self.undecided else self.run.curve.saved_after(self.after_turn if self.early else None)


@dataclass(frozen=True)
class Share:
    """A share over several runs, in percent: of those of which it is `known`, the mean and the range."""

    known: int
    mean: float
    least: float
    most: float


def share_of(replays: Sequence[PolicyReplay], name: str) -> Share | None:
    """The mean and the range of a field of Saved; None where none of the runs has it."""
    values = [value for replay in replays if (value := getattr(replay.saved, name)) is not None]
    return Share(len(values), sum(values) / len(values), min(values), max(values)) if values else None


def stop_text(replays: Sequence[PolicyReplay], floors: Sequence[str]) -> str:
    """A table for each kind of runs, with means over the runs of that kind alone, and what to mind about them.

    `floors` say where the floors are from that were compared with.
    """
    runs = _runs(replays)
    kinds = _kinds(runs)
    lines = []
    for kind, alike in kinds.items():
        rows = [row for of_policy in _by_policy(replays, alike) for row in _rows(of_policy)]
        lines += [table(HEADER, rows, HEADER[2:]), f"{where_text(alike)} {_who_text(kind)}", ""]
    if len(kinds) > 1:
        lines += [apart_text(list(kinds), "means are over runs of one kind"), ""]
    lines += told_once(_reasons(replay for replay in replays if replay.undecided or len(runs) == 1))
    lines += told_once((run.name, note) for run in runs for note in run.notes)
    return "\n".join([*lines, *(f"Floors: {text}." for text in floors), METHOD])


def stop_data(replays: Sequence[PolicyReplay], floors: Sequence[str], problems: Mapping[str, str]) -> dict[str, Any]:
    """The same as one object.

    Scripts may rely on `problems` (by run, a sentence each), `floors`, `replays` (one a policy and run) and `means`
    (one a policy and kind of runs). `comparable` is equal for runs of one kind. Shares are in percent, null
    where unknown, as they are where a policy is `undecided` and where a part of what was saved was not counted; where
    what the whole run took has gaps, the field with `_lower_bound` says so.
    """
    kinds = _kinds(_runs(replays))
    number_of = {id(run): number for number, alike in enumerate(kinds.values(), start=1) for run in alike}
    return {
        "problems": dict(problems),
        "floors": list(floors),
        "kinds": [dataclasses.asdict(kind) for kind in kinds],
        "replays": [_replay_data(replay, number_of[id(replay.run)]) for replay in replays],
        "means": [
            _mean_data(of_policy, number)
            for number, alike in enumerate(kinds.values(), start=1)
            for of_policy in _by_policy(replays, alike)
        ],
    }


def _replay_data(replay: PolicyReplay, comparable: int) -> dict[str, Any]:
    end = replay.run.curve.end
    return {
        "policy": replay.policy,
        "run": replay.run.name,
        "run_dir": replay.run.folder,
        "comparable": comparable,
        "stops_after_turn": replay.after_turn,
        "turns": end.turn,
        "undecided": replay.undecided,
        "why": replay.why,
        "numbers": dict(replay.numbers),
        **dataclasses.asdict(replay.saved),
        "tokens_lower_bound": end.spent.token_gaps > 0,
        "usd_lower_bound": end.spent.cost_lower_bound,
        "gpu_lower_bound": end.spent.gpu_lower_bound,
        "final_score": end.score,
    }


def _mean_data(replays: Sequence[PolicyReplay], comparable: int) -> dict[str, Any]:
    shares = {name: share_of(replays, name) for name in SHARES}
    return {
        "policy": replays[0].policy,
        "comparable": comparable,
        "runs": len(replays),
        "stopped": _stopped(replays),
        **{name: None if share is None else dataclasses.asdict(share) for name, share in shares.items()},
    }


def _runs(replays: Sequence[PolicyReplay]) -> list[RunReport]:
    return list({id(replay.run): replay.run for replay in replays}.values())


def _kinds(runs: Sequence[RunReport]) -> dict[Kind, list[RunReport]]:
    """The runs by kind, in the order in which each kind comes first."""
    found: dict[Kind, list[RunReport]] = {}
    for run in runs:
        config = run.record.config
        levels = "".join(config.levels) or "none"
        kind = Kind(
            **vars(run.circumstances),
            model=config.model,
            levels=levels,
            turns=config.turns,
            stop_policy=config.stop_policy,
        )
        found.setdefault(kind, []).append(run)
    return found


def _who_text(kind: Kind) -> str:
    own = kind.stop_policy or "none"
    return f"Model {kind.model}, levels {kind.levels}, a limit of {counted(kind.turns, 'turn')}, stopping policy {own}."


def _by_policy(replays: Sequence[PolicyReplay], runs: Sequence[RunReport]) -> list[list[PolicyReplay]]:
    wanted = {id(run) for run in runs}
    found: dict[str, list[PolicyReplay]] = {}
    for replay in replays:
        if id(replay.run) in wanted:
            found.setdefault(replay.policy, []).append(replay)
    return list(found.values())


def _stopped(replays: Sequence[PolicyReplay]) -> int:
    return sum(replay.early for replay in replays)


def _rows(replays: Sequence[PolicyReplay]) -> Iterator[tuple[str, ...]]:
    """A row a run, and one for all of them where they are several."""
    for index, replay in enumerate(replays):
        saved = replay.saved
        cells = (_percent(getattr(saved, name)) for name in SHARES)
        yield (replay.policy if index == 0 else "", replay.run.name, _when(replay), *cells)
    if len(replays) > 1:
        stopped = f"{_stopped(replays)} of {counted(len(replays), 'run')}"
        yield ("", f"mean of {len(replays)}", stopped, *(_mean(replays, name) for name in SHARES))


def _when(replay: PolicyReplay) -> str:
    turns = f"{replay.run.curve.end.turn:,}"
    if replay.early:
        return f"{replay.after_turn:,} of {turns}"
    return f"cannot tell ({turns})" if replay.undecided else f"its end ({turns})"


def _mean(replays: Sequence[PolicyReplay], name: str) -> str:
    share = share_of(replays, name)
    if share is None:
        return UNKNOWN
    known = "" if share.known == len(replays) else f", of {share.known}"
    return f"{_percent(share.mean)} ({share.least:.1f} to {share.most:.1f}{known})"


def _percent(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.1f} %"


def _reasons(replays: Iterable[PolicyReplay]) -> Iterator[tuple[str, str]]:
    """Policies with what they did and why, and with all runs of which that is so."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for replay in replays:
        does = "cannot tell when to stop" if replay.undecided else _does(replay)
        found.setdefault((replay.policy, does, replay.why), []).append(replay.run.name)
    for (policy, does, why), names in found.items():
        yield policy, f"{does} ({', '.join(names)}): {why}"


def _does(replay: PolicyReplay) -> str:
    if replay.after_turn is None:
        return "does not stop"
    return (
        f"stops after turn {replay.after_turn}" if replay.early else f"stops after turn {replay.after_turn}, its last"
    )
