"""What the host tool `submit` answers with, and how it becomes records.

The two functions are the two ends of one seam: whoever composes the tool calls `submission_data`, the loop reads it.
"""

from __future__ import annotations

from typing import Any

from d2k_agent.contract import Verdict
from d2k_agent.contract.wire import WireError, from_data, to_data
from d2k_agent.errors import MachineError
from d2k_agent.records import EvaluationTook, Event, Measured, Modelled, RunFolder, Submitted, VerdictReached, cut

VERDICT = "verdict"
CANDIDATE = "candidate"


def submission_data(candidate: str, verdict: Verdict) -> dict[str, Any]:
    """The `data` of the answer of `submit`: the text that was judged, and the verdict on it."""
    return {CANDIDATE: candidate, VERDICT: to_data(verdict)}


def record_submission(run: RunFolder, turn: int, call_id: str, data: dict[str, Any]) -> list[Event]:
    """The events of one submission, its text being stored; none when `data` holds no verdict (nothing was handed in).

    Raises MachineError when the answer is no verdict, or is about another text.
    """
    if VERDICT not in data:
        return []
    try:
        verdict = from_data(Verdict, data[VERDICT])
        candidate = str(data[CANDIDATE])
    except (WireError, KeyError) as problem:
        raise MachineError(
            f"the tool submit answered with what is no verdict ({problem}); use an evaluator of this version"
        ) from problem
    sha256 = run.store_candidate(candidate)
    if sha256 != verdict.candidate_sha256:
        raise MachineError(
            f"the verdict is about candidate {verdict.candidate_sha256}, but {sha256} was handed in; restart the "
            "evaluator, then resume the run"
        )
    parts = cut(verdict)
    events: list[Event] = [
        Submitted(turn=turn, call_id=call_id, sha256=sha256),
        VerdictReached(turn=turn, call_id=call_id, sha256=sha256, verdict=parts.verdict),
    ]
    if verdict.modelled is not None:
        events.append(Modelled(turn=turn, call_id=call_id, sha256=sha256, modelled=verdict.modelled))
    if parts.times is not None:
        events.append(Measured(turn=turn, call_id=call_id, sha256=sha256, times=parts.times))
    if parts.seconds:
        events.append(EvaluationTook(turn=turn, call_id=call_id, sha256=sha256, seconds=parts.seconds))
    return events
