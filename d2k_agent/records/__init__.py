"""Records: what a run is and what happened in it, as files that can be trusted after a crash.

Covers: the run's folder, its record, the append-only event log, and the reader of both. Does not cover: deciding
anything (agent) or printing anything (reports).
"""

from d2k_agent.records.caches import CacheRecord, Compaction, cache_record, request_gaps_s
from d2k_agent.records.costs import Cost, cost_at, recorded_cost
from d2k_agent.records.curves import FALLBACK_SCORE, Curve, Point, Spent, curve
from d2k_agent.records.events import (
    CacheChecked,
    Choice,
    Compacted,
    ConfirmationMeasured,
    ConfirmationReached,
    ConfirmationTook,
    ConversationStarted,
    EvaluationTook,
    Event,
    Measured,
    ModelCallFailed,
    ModelCallInterrupted,
    ModelCallStarted,
    ModelReplied,
    Nudged,
    RunFinished,
    RunInterrupted,
    RunResumed,
    SelectionConfirmed,
    SelectionMade,
    StopReason,
    Submitted,
    ToolCallInterrupted,
    ToolCallStarted,
    ToolFinished,
    TurnClosed,
    VerdictReached,
)
from d2k_agent.records.folder import RunFolder
from d2k_agent.records.lock import Driver
from d2k_agent.records.log import EventLog, read_events
from d2k_agent.records.replayed import Replayed, recorded_turns, replayed
from d2k_agent.records.run_record import RunRecord
from d2k_agent.records.totals import Totals, sum_usd, total
from d2k_agent.records.trace import (
    Confirmation,
    Submission,
    Trace,
    confirmations,
    message_of,
    read_trace,
    submissions,
)
from d2k_agent.records.verdicts import Times, VerdictRecord, WorkloadTime, WorkloadVerdict, cut

__all__ = [
    "FALLBACK_SCORE",
    "CacheChecked",
    "CacheRecord",
    "Choice",
    "Compacted",
    "Compaction",
    "Confirmation",
    "ConfirmationMeasured",
    "ConfirmationReached",
    "ConfirmationTook",
    "ConversationStarted",
    "Cost",
    "Curve",
    "Driver",
    "EvaluationTook",
    "Event",
    "EventLog",
    "Measured",
    "ModelCallFailed",
    "ModelCallInterrupted",
    "ModelCallStarted",
    "ModelReplied",
    "Nudged",
    "Point",
    "Replayed",
    "RunFinished",
    "RunFolder",
    "RunInterrupted",
    "RunRecord",
    "RunResumed",
    "SelectionConfirmed",
    "SelectionMade",
    "Spent",
    "StopReason",
    "Submission",
    "Submitted",
    "Times",
    "ToolCallInterrupted",
    "ToolCallStarted",
    "ToolFinished",
    "Totals",
    "Trace",
    "TurnClosed",
    "VerdictReached",
    "VerdictRecord",
    "WorkloadTime",
    "WorkloadVerdict",
    "cache_record",
    "confirmations",
    "cost_at",
    "curve",
    "cut",
    "message_of",
    "read_events",
    "read_trace",
    "recorded_cost",
    "recorded_turns",
    "replayed",
    "request_gaps_s",
    "submissions",
    "sum_usd",
    "total",
]
