"""Why a cost, or a count of tokens, is not known, and what makes it known the next time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from d2k_agent.contract.wording import counted
from d2k_agent.models import FIELD_OF_RATE
from d2k_agent.records import ModelReplied, StopReason, recorded_cost

if TYPE_CHECKING:
    from d2k_agent.records import Trace


def unknown_text(trace: Trace) -> str | None:
    """What was not known when a limit in dollars or tokens ended the run, and what to do; None for another end."""
    reason = None if trace.finished is None else trace.finished.stop_reason
    replies = [event for event in trace.events if isinstance(event, ModelReplied)]
    if reason is StopReason.COST_UNKNOWN:
        return _why_no_cost(trace, replies)
    if reason is StopReason.TOKENS_UNKNOWN:
        return f"{_uncounted(replies)}; have the server report usage, or leave --budget-tokens out of a new run."
    return None


def _why_no_cost(trace: Trace, replies: Sequence[ModelReplied]) -> str:
    row, model = trace.run.price, trace.run.config.model
    unpriced = [reply for reply in replies if reply.cost_usd is None]
    fields = [FIELD_OF_RATE[name] for name in recorded_cost(trace.events, row).missing_rates]
    if row is not None and fields:
        return (
            f"The prices of {row.model} ({row.source}) have no {' and no '.join(fields)}, and a reply has such tokens; "
            f"add the missing rate to the row of {model} in a file for --price-file, and start a new run."
        )
    if any(reply.usage.output is None or reply.usage.input_tokens is None for reply in unpriced):
        return f"{_uncounted(replies)}; have the server report usage, or leave --budget-usd out of a new run."
    return (
        f"The known prices of {model} do not hold for {counted(len(unpriced), 'reply', 'replies')}; give those that do "
        "with --price-file in a new run, or leave --budget-usd out of it."
    )


def _uncounted(replies: Sequence[ModelReplied]) -> str:
    gaps = sum(not reply.usage.known for reply in replies)
    nothing = all(reply.usage.output is None and reply.usage.input_tokens is None for reply in replies)
    count = "count of tokens" if nothing else "complete count of tokens"
    return f"{gaps} of {counted(len(replies), 'reply', 'replies')} came without a {count}"
