"""Why a run ended."""

from __future__ import annotations

import enum


class StopReason(enum.StrEnum):
    """Why a run ended. Each is a budget or a wish, never an error."""

    FINISHED_BY_MODEL = "finished_by_model"
    """The model answered without a tool call three times in a row."""
    TURN_LIMIT = "turn_limit"
    COST_LIMIT = "cost_limit"
    """The replies cost as many dollars as the run was given, or more by a part of the last one."""
    COST_UNKNOWN = "cost_unknown"
    """The run was given a number of dollars, and a reply has no known price: nobody can say what is left."""
    TOKEN_LIMIT = "token_limit"
    """The replies took as many tokens as the run was given, or more by a part of the last one."""
    TOKENS_UNKNOWN = "tokens_unknown"
    """The run was given a number of tokens, and a reply did not say how many it took."""
    WALL_TIME_LIMIT = "wall_time_limit"
    WORKING_TIME_LIMIT = "working_time_limit"
    """The run took as much time as it was given, waiting for GPUs not counted, or more by its last step."""
    STOP_POLICY = "stop_policy"
    """The run's stopping policy saw nothing more to gain; a PolicyStopped says what it saw."""
    STOP_REQUESTED = "stop_requested"
    CONTEXT_OVERFLOW = "context_overflow"
    SCRIPT_ENDED = "script_ended"
