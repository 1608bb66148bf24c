"""Which submission stands for the run: a pure function over the records.

Eligible is a submission that passed and was measured on every registered workload of the task within the limit of
turns, nowhere faster than the hardware allows. Without one, a correct and rule-abiding candidate is named as
provisional: where all of them have a modelled latency for one target the lowest, else the last. It is no selection: a
model ranks it, or nothing does.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from d2k_agent.catalog import IMPOSSIBLE
from d2k_agent.contract import VerdictStatus
from d2k_agent.contract.wording import counted
from d2k_agent.records import Choice, Submission


@dataclass(frozen=True)
class Selection:
    """The outcome of choosing; at most one of the two is set. `why` is one sentence for the operator."""

    selection: Choice | None
    provisional: Choice | None
    why: str


def select(
    submissions: Sequence[Submission], workloads: Collection[str], turn_limit: int, refused: Collection[str] = ()
) -> Selection:
    """Choose the highest geometric-mean speedup, of two equal ones the earlier turn's.

    `workloads` are the labels of all registered workloads; `refused` names candidates that failed when confirmed.
    """
    in_time = [item for item in submissions if item.turn <= turn_limit]
    within = [item for item in in_time if item.sha256 not in refused]
    eligible = [choice_of(item) for item in within if item.eligible(workloads)]
    blocked = _blocked(within)
    if eligible:
        best = min(eligible, key=lambda choice: (-(choice.geomean_speedup or 0.0), choice.turn))
        return Selection(best, None, f"the fastest of {counted(len(eligible), 'eligible submission')}{blocked}")
    correct = [item for item in within if item.verdict.status is VerdictStatus.UNTIMED]
    if correct:
        return _provisional(correct)
    if not in_time:
        return Selection(None, None, "nothing was handed in that could be chosen")
    again = len(in_time) - len(within)
    refusals = f" ({again} refused when judged again)" if again else ""
    return Selection(None, None, f"of {counted(len(in_time), 'submission')} none was accepted{refusals}{blocked}")


def _provisional(correct: Sequence[Submission]) -> Selection:
    """One of candidates that are correct and that nobody measured."""
    modelled = [choice_of(item) for item in correct]
    targets = {item.modelled.target for item in correct if item.modelled is not None}
    if len(targets) == 1 and all(choice.modelled_ms is not None for choice in modelled):
        # What differs beyond three digits the model cannot tell apart: then the last, as without one.
        best = min(modelled, key=lambda choice: (float(f"{choice.modelled_ms:.3g}"), -choice.turn))
        among = counted(len(correct), "correct candidate")
        why = f"nothing was measured; modelled for {min(targets)}, the provisional one is the fastest of {among}"
        return Selection(None, best, why)
    why = "nothing was measured on this machine, so the last correct candidate is named, without a rank"
    return Selection(None, max(modelled, key=lambda choice: choice.turn), why)


def _blocked(within: Sequence[Submission]) -> str:
    """Which submissions are blocked, why, and what would free them."""
    turns = [str(item.turn) for item in within if item.impossible]
    if not turns:
        return ""
    return (
        f"; turn{'s' * (len(turns) > 1)} {', '.join(turns)} blocked: {IMPOSSIBLE}; find out why, and where the kernel "
        "rightly does less than the task's hidden/sol.py counts, correct that file and judge it again"
    )


def choice_of(submission: Submission) -> Choice:
    """The submission as a choice."""
    return Choice(
        sha256=submission.sha256,
        turn=submission.turn,
        call_id=submission.call_id,
        geomean_speedup=submission.geomean_speedup,
        modelled_ms=submission.modelled.geomean_ms if submission.modelled else None,
    )
