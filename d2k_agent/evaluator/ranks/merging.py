"""Answers of several ranks as one: outputs in a row, the longest time, the most bytes, any act that is foreign."""

from __future__ import annotations

import functools
import hashlib
import json
import operator
from collections import Counter
from collections.abc import Sequence
from typing import Any

from d2k_agent.contract import VerdictStatus
from d2k_agent.evaluator import layout
from d2k_agent.evaluator.faults import CandidateFault
from d2k_agent.evaluator.process import decode
from d2k_agent.evaluator.timing.timed import CLAIM


def merged(kind: bytes, payloads: Sequence[bytes], doing: str) -> bytes:
    """One payload of a kind of answer: D is what a call gave, B a claim, A and the others are words.

    Raises CandidateFault where ranks contradict each other, or one answered out of protocol.
    """
    try:
        if kind == b"D":
            return layout.pack_answer(_together([layout.unpack_answer(payload) for payload in payloads]))
        if kind == b"B":
            return _claim(payloads)
        if len(set(payloads)) == 1:
            return payloads[0]
        words = [decode(payload) for payload in payloads]
        if all(item == words[0] for item in words):  # names in another order
            return payloads[0]
        return _captured(words) if "digest" in words[0] else _observed(words)
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        told = f"the ranks contradict each other in {doing}: {problem}"
        raise CandidateFault(
            VerdictStatus.ENDED_EARLY, told, brief=f"the ranks contradict each other in {doing}"
        ) from None


def _together(answers: Sequence[layout.AnswerHeader]) -> layout.AnswerHeader:
    """Ranks that return different numbers of outputs are told apart here, since in a row nobody could."""
    counts = [len(answer.outputs) for answer in answers]
    if len(set(counts)) > 1:
        raise ValueError(f"run() returned {' and '.join(map(str, counts))} tensors")
    return layout.AnswerHeader(
        tuple(header for answer in answers for header in answer.outputs),
        max(answer.peak_bytes for answer in answers),
        max(answer.copied_bytes for answer in answers),
        max(answer.wall_ns for answer in answers),
        next((answer.foreign for answer in answers if answer.foreign), ""),
        any(answer.again for answer in answers),
        tuple(sorted({position for answer in answers for position in answer.written})),
    )


def _claim(payloads: Sequence[bytes]) -> bytes:
    """The calls, which are the same on all ranks, and the time of the slowest."""
    if any(len(payload) != CLAIM.size for payload in payloads):
        raise ValueError("a claim of the wrong length")
    claims = [CLAIM.unpack(payload) for payload in payloads]
    if len({calls for calls, _ in claims}) > 1:
        raise ValueError(f"they claim {' and '.join(str(calls) for calls, _ in claims)} calls")
    return CLAIM.pack(claims[0][0], max(claim_ms for _, claim_ms in claims))


def _captured(told: Sequence[dict[str, Any]]) -> bytes:
    """What the captures of all ranks hold, with one digest for all: a rank may launch what another one does not."""
    digests = " ".join(str(item["digest"]) for item in told)
    return json.dumps(
        {
            "single": sum(int(item["single"]) for item in told) if all(item["single"] for item in told) else 0,
            "captured": sum(int(item["captured"]) for item in told),
            "repeated": all(item["repeated"] is True for item in told),
            "digest": hashlib.sha256(digests.encode()).hexdigest(),
            "names": functools.reduce(operator.or_, (Counter(item["names"]) for item in told)),
        }
    ).encode()


def _observed(told: Sequence[dict[str, Any]]) -> bytes:
    """What a call launches on any rank (unknown where one does not know), each kernel as often as on the busiest."""
    kernels: Counter[str] = Counter()
    for item in told:
        kernels |= Counter(item["kernels"] or {})
    unknown = any(item["kernels"] is None for item in told)
    foreign = next((str(item["foreign"]) for item in told if item["foreign"]), "")
    most = {name: max(int(item[name]) for item in told) for name in ("peak_bytes", "copied_bytes")}
    return json.dumps({"kernels": None if unknown else dict(kernels), "foreign": foreign, **most}).encode()
