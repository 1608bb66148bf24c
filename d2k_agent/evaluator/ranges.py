"""Ranges that a profiler shows on the evaluator's time line: submissions, workloads, warm-up, batches.

They are named `d2k KIND WHAT`: `d2k submission 1a2b3c4d` (the candidate's sha256 begins so), `d2k workload LABEL`,
`d2k warm-up LABEL`, `d2k batch LABEL`. `--evaluator "nsys profile --trace=cuda,nvtx -o FILE"` records them. Nothing is
done for them within timed work, and nothing at all where PyTorch has no CUDA.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Literal

import torch

Kind = Literal["submission", "workload", "warm-up", "batch"]


def span(kind: Kind, what: str) -> AbstractContextManager[None]:
    """A range around a block of code."""
    return nullcontext() if torch.version.cuda is None else _pushed(range_name(kind, what))


def range_name(kind: Kind, what: str) -> str:
    """What a range is called."""
    return f"d2k {kind} {what}"


@contextmanager
def _pushed(name: str) -> Iterator[None]:
    torch.cuda.nvtx.range_push(name)
    try:
        yield
    finally:
        torch.cuda.nvtx.range_pop()
