"""Where a cached prefix ends, for providers that cache only where they are told to. A pure function."""

from __future__ import annotations

from collections.abc import Sequence

from d2k_agent.models.protocol import Message


def cache_points(messages: Sequence[Message]) -> list[int]:
    """Indices of the messages that end a cached prefix, at most three.

    The system message (tools come before it and are covered), the end of the previous request, which is what was
    written last time, and the end of this one. Finding the previous end by lookback is not enough: providers look
    back about twenty blocks, and one reply may ask for more tool results than that.
    """
    replies = [index for index, message in enumerate(messages) if message.get("role") == "assistant"]
    points = {0} if messages and messages[0].get("role") == "system" else set()
    if replies and replies[-1] > 0:
        points.add(replies[-1] - 1)
    return sorted(points | {len(messages) - 1})
