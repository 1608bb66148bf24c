"""Ranges for a profiler: named as documented where PyTorch has CUDA, and nothing at all elsewhere."""

from __future__ import annotations

import pytest
import torch

from d2k_agent.evaluator.ranges import range_name, span


@pytest.fixture
def pushed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is pushed and popped while NVTX is PyTorch's own, in order."""
    seen: list[str] = []
    monkeypatch.setattr(torch.cuda.nvtx, "range_push", seen.append)
    monkeypatch.setattr(torch.cuda.nvtx, "range_pop", lambda: seen.append("pop"))
    return seen


def test_ranges_are_named_as_documented_and_end_whatever_happens(
    pushed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    with span("submission", "1a2b3c4d"), span("workload", "large"):
        with pytest.raises(ValueError, match="run"), span("warm-up", "large"):
            raise ValueError("run() raised")
        with span("batch", "large"):
            pass
    assert pushed == [
        *("d2k submission 1a2b3c4d", "d2k workload large", "d2k warm-up large", "pop"),
        *("d2k batch large", "pop", "pop", "pop"),
    ]


def test_without_cuda_nothing_is_done(pushed: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.version, "cuda", None)
    with span("batch", "large"):
        pass
    assert pushed == []
    assert range_name("batch", "large") == "d2k batch large"
