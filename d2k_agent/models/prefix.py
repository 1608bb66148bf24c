"""The beginning of a request as digests: whether it is byte for byte what an earlier request began with.

An item is the tools, then each message. The digest of item n covers all items up to it, so two equal digests mean
equal prefixes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from d2k_agent.models.protocol import Message


class Prefix:
    """Digests of a conversation that grows at its end."""

    def __init__(self) -> None:
        self._digests: list[bytes] = []

    def __len__(self) -> int:
        return len(self._digests)

    def digest(self, items: int) -> str | None:
        """The digest of the first `items` items, None where there are fewer."""
        return self._digests[items - 1].hex() if 0 < items <= len(self._digests) else None

    def grow(self, item: Message | Sequence[dict[str, Any]]) -> None:
        """Add an item at the end."""
        before = self._digests[-1] if self._digests else b""
        body = json.dumps(item, ensure_ascii=True, separators=(",", ":")).encode()
        self._digests.append(hashlib.sha256(before + body).digest())

    def cut(self, items: int) -> None:
        """Keep the first `items` items."""
        del self._digests[items:]
