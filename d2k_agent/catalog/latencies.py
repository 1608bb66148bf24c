"""Latencies of a task's own sources as they were measured once: hidden/baselines.json, which no agent sees."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from d2k_agent.catalog.reading import read_object
from d2k_agent.errors import UsageError

OTHER_RANKS = "other_ranks"
"""The key of latencies by other numbers of ranks than the task's usual one, which are written like those."""


@dataclass(frozen=True)
class SourceLatencies:
    """Milliseconds a call on one workload, measured on `device`."""

    device: str
    reference_ms: float
    baseline_ms: float
    expert_ms: float

    @property
    def speedup(self) -> float:
        """The baseline's latency over the expert's."""
        return self.baseline_ms / self.expert_ms


def source_latencies(folder: Path, ranks: int | None = None) -> dict[str, SourceLatencies]:
    """By workload; empty where nothing was measured. Raises UsageError where the file is not what it should be.

    `ranks` is another number of ranks than the task's usual one (None).
    """
    path = folder / "hidden" / "baselines.json"
    if not path.is_file():
        return {}
    data: dict[str, Any] = read_object(path)
    others = data.pop(OTHER_RANKS, {})
    if not isinstance(others, dict):
        told = f"{OTHER_RANKS} must be an object by numbers of ranks, not {others!r:.80}"
        raise UsageError(f"{path}: {told}; measure again: make gpu-tasks")
    if ranks is None and (data or not others):
        return _read(path, data)
    return _read(path, others[str(ranks)]) if str(ranks) in others else {}


def measured_digest(folder: Path) -> str | None:
    """The digest of the task as it was when its sources were measured; None where nobody knows.

    Raises UsageError where the file is no JSON object.
    """
    path = folder / "hidden" / "baselines.json"
    provenance = read_object(path).get("provenance") if path.is_file() else None
    digest = provenance.get("task_digest") if isinstance(provenance, dict) else None
    return digest if isinstance(digest, str) else None


def _read(path: Path, data: Any) -> dict[str, SourceLatencies]:
    try:
        device = str(data["provenance"]["device"])
        workloads = {str(label): dict(item) for label, item in data["workloads"].items()}
    except (KeyError, TypeError, ValueError, AttributeError) as problem:
        told = "it needs provenance.device and, by workload, an object of latencies"
        raise UsageError(f"{path}: {told}; measure again: make gpu-tasks") from problem

    def latency_ms(label: str, key: str) -> float:
        value = workloads[label].get(key)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= sys.float_info.max:
            raise UsageError(
                f"{path}: {key} of workload {label} must be a finite number above 0, not {value!r:.80}; "
                "measure again: make gpu-tasks"
            )
        return float(value)

    return {
        label: SourceLatencies(
            device,
            latency_ms(label, "reference_ms"),
            latency_ms(label, "baseline_ms"),
            latency_ms(label, "expert_ms"),
        )
        for label in workloads
    }
