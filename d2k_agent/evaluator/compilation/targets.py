"""The GPUs that a candidate can be compiled for: data-sheet numbers a kernel or its host code may ask for.

Covers what decides compilation and launch geometry. Does not cover speeds: nothing here is a floor for a latency.
"""

from __future__ import annotations

from dataclasses import dataclass

TENSOR_MEMORY_COLUMNS = 512
"""Columns of tensor memory of one multiprocessor, where a target has tensor memory at all."""


@dataclass(frozen=True)
class Target:
    """One GPU. `capability` is major * 10 + minor; `shared_limit_bytes` is what one block may opt in to."""

    name: str
    product: str
    capability: int
    multiprocessors: int
    shared_limit_bytes: int
    l2_bytes: int
    memory_bytes: int

    @property
    def architecture(self) -> str:
        """The compiler's word for it, such as sm_100."""
        return f"sm_{self.capability}"

    @property
    def has_tensor_memory(self) -> bool:
        """True from Blackwell on, where tcgen05.mma accumulates in tensor memory."""
        return self.capability >= 100


TARGETS = {
    target.name: target
    for target in (
        Target("h100", "NVIDIA H100 80GB HBM3", 90, 132, 232448, 50 << 20, 80 << 30),
        Target("h200", "NVIDIA H200", 90, 132, 232448, 50 << 20, 141 << 30),
        Target("b200", "NVIDIA B200", 100, 148, 232448, 126 << 20, 180 << 30),
        Target("b300", "NVIDIA B300 SXM6 AC", 103, 148, 232448, 126 << 20, 270 << 30),
    )
}


def find_target(name: str) -> Target:
    """The target of that name, in any case. Raises ValueError that lists the known ones."""
    target = TARGETS.get(name.lower())
    if target is None:
        raise ValueError(f"unknown target {name!r}: choose one of {', '.join(sorted(TARGETS))}")
    return target
