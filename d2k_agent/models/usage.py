"""Token usage of one reply in four disjoint buckets, and how a provider's report becomes that.

Covers: the record, and the normalisation of the usage object that LiteLLM returns. Does not cover: prices, totals
over a run (records), or estimates: a count that no provider reported is None.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

BUCKETS = ("uncached_input", "cache_write", "cache_read", "output")
"""The disjoint parts of a reply's tokens: each has a price of its own."""
ASIDE = ("reasoning", "unsplit_input", "cache_write_1h")
"""Counts beside the buckets: parts of one of them, and what is in none."""

READ_FIELDS = ("cached_tokens", "cache_read_input_tokens", "prompt_cache_hit_tokens")
WRITE_FIELDS = ("cache_creation_tokens", "cache_write_tokens", "cache_creation_input_tokens")
WRITE_DETAILS = "cache_creation_token_details"


@dataclass(frozen=True)
class Usage:
    """Tokens of one reply. The first four are disjoint; `reasoning` is a part of `output`. None means unknown.

    `cache_write_1h` is the part of `cache_write` that was written for an hour, which costs more than for five minutes.
    `unsplit_input` are input tokens that are in none of the three input buckets, because nobody said in which.
    """

    uncached_input: int | None
    cache_write: int | None
    cache_read: int | None
    output: int | None
    reasoning: int | None = None
    unsplit_input: int | None = None
    cache_write_1h: int | None = None

    def __post_init__(self) -> None:
        for name in (*BUCKETS, *ASIDE):
            value = getattr(self, name)
            if value is not None and value < 0:
                raise ValueError(f"{name} is a number of tokens, not {value}")
        if self.reasoning is not None and (self.output is None or self.reasoning > self.output):
            raise ValueError(f"reasoning ({self.reasoning}) is a part of output ({self.output})")
        if self.cache_write_1h is not None and self.cache_write_1h > (self.cache_write or 0):
            raise ValueError(f"cache_write_1h ({self.cache_write_1h}) is a part of cache_write ({self.cache_write})")

    @classmethod
    def unknown(cls) -> Usage:
        """The usage of a reply that nobody counted."""
        return cls(None, None, None, None, None)

    @property
    def input_tokens(self) -> int | None:
        """All tokens of the request; None where a part of them is not known."""
        parts = [self.uncached_input, self.cache_write, self.cache_read]
        if self.unsplit_input is not None:  # what stands in no bucket stands there
            parts = [self.unsplit_input, *(part or 0 for part in parts)]
        return None if None in parts else sum(part or 0 for part in parts)

    @property
    def known(self) -> bool:
        """True when all four buckets are known."""
        return all(getattr(self, name) is not None for name in BUCKETS)


def usage_from_report(report: Mapping[str, Any] | None) -> Usage:
    """The buckets of a usage report in LiteLLM's form, where `prompt_tokens` includes cached reads and writes.

    No request has an empty prompt: a report without prompt tokens is no report. Where nothing says how many tokens
    were read from a cache, nobody knows how the rest of the prompt was split. A provider that counts reads and no
    writes has no price for writes: there are none. Where reads and writes exceed the prompt, the prompt cannot include
    them and is itself the uncached part.
    """
    report = report or {}
    prompt, completion = _count(report, "prompt_tokens"), _count(report, "completion_tokens")
    if not prompt or completion is None:
        return Usage.unknown()
    reasoning = _count(report.get("completion_tokens_details") or {}, "reasoning_tokens")
    output = _output(report, prompt, completion, reasoning or 0)
    read, write = _largest(report, READ_FIELDS), _largest(report, WRITE_FIELDS)
    cached = (read or 0) + (write or 0)
    rest = prompt - cached if cached <= prompt else prompt
    hour = _count((report.get("prompt_tokens_details") or {}).get(WRITE_DETAILS) or {}, "ephemeral_1h_input_tokens")
    hour = None if hour is None else min(hour, write or 0)
    if read is None:
        return Usage(None, write, None, output, reasoning, unsplit_input=rest, cache_write_1h=hour)
    return Usage(rest, write or 0, read, output, reasoning, cache_write_1h=hour)


def _largest(report: Mapping[str, Any], names: Sequence[str]) -> int | None:
    """The count that goes by one or several of `names`, None where it goes by none."""
    sources = (report.get("prompt_tokens_details") or {}, report)
    counts = [_count(source, name) for source in sources for name in names]
    return max((count for count in counts if count is not None), default=None)


def _output(report: Mapping[str, Any], prompt: int, completion: int, reasoning: int) -> int:
    """All output tokens. Some providers count reasoning beside the completion: the total then says so."""
    outside = _count(report, "total_tokens") == prompt + completion + reasoning
    return completion + reasoning if outside or reasoning > completion else completion


def _count(source: Mapping[str, Any], name: str) -> int | None:
    value = source.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
