"""Text that reads the same on every machine, so that a recorded conversation is not bound to one."""

from __future__ import annotations

import codecs
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from d2k_agent.sandbox import Captured

_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


class PortableText:
    """Replaces the folders of this machine by names that hold everywhere, and back.

    `roots` maps a folder to its portable name ("/workspace", "<python>").
    """

    def __init__(self, roots: Mapping[str, str]) -> None:
        longest_first = sorted(roots, key=len, reverse=True)
        self._names = {root: roots[root] for root in longest_first}
        self._folders = {name: root for root, name in reversed(self._names.items())}
        self._outward = _whole_paths(self._names)
        self._inward = _whole_paths(self._folders)

    def outward(self, text: str) -> str:
        """Text of this machine as a model may see it."""
        return self._outward.sub(lambda match: self._names[match[0]], text)

    def inward(self, text: str) -> str:
        """A path or command of a model as this machine understands it."""
        return self._inward.sub(lambda match: self._folders[match[0]], text)


def _whole_paths(names: Mapping[str, str]) -> re.Pattern[str]:
    """Matches the names where they stand for a path or the beginning of one, not inside a longer name."""
    alternatives = "|".join(map(re.escape, names))
    return re.compile(rf"(?<![\w.-])(?:{alternatives})(?![\w-]|\.\w)")


def readable(text: str) -> str:
    """Text without control characters (shown as \\xNN, except tab and line ends) and without lone surrogates."""
    shown = _CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", text)
    return shown.encode("utf-8", "backslashreplace").decode("utf-8")


def decoded(captured: Captured) -> str:
    """A captured stream as text: what is no UTF-8 is replaced, what was dropped is said where it was."""
    if not captured.dropped_bytes:
        return readable((captured.head + captured.tail).decode("utf-8", "replace"))
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    head = decoder.decode(captured.head)
    cut_off = len(decoder.getstate()[0])
    tail = captured.tail
    started_before = next((i for i, byte in enumerate(tail[:3]) if byte & 0xC0 != 0x80), len(tail[:3]))
    dropped = captured.dropped_bytes + cut_off + started_before
    marker = f"\n[... {dropped} bytes dropped ...]\n"
    return readable(head) + marker + readable(tail[started_before:].decode("utf-8", "replace"))


def shortened(text: str, limit: int) -> str:
    """`text` with its middle left out, so that it has at most `limit` characters, and a note of what was left out."""
    if len(text) <= limit:
        return text
    marker = "\n[... {} characters dropped ...]\n"
    kept = limit - len(marker) - 12
    head, tail = kept - kept // 2, kept // 2
    return text[:head] + marker.format(len(text) - kept) + text[len(text) - tail :]
