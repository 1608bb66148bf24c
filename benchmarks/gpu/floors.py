"""A modelled lower bound of a workload's latency: counts of the best known algorithm over what a machine sustains.

The counts are the task's (hidden/sol.py), which no agent sees. A floor is a model, of its own type, and never stands in
for a measurement. Does not cover: what stays in the cache between calls, launches, and the reference's own algorithm.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal


@dataclass(frozen=True)
class Ceilings:
    """What a machine sustains: matrix products in TFLOP/s, memory in TB/s, and where the numbers come from."""

    device: str
    product_tflops: float
    memory_tbytes: float
    source: str


H200 = Ceilings(
    "NVIDIA H200",
    product_tflops=665.0,
    memory_tbytes=4.8,
    source=(
        "665 TFLOP/s is what a 16-bit product sustained for a second at the card's power limit, measured; 4.8 TB/s is "
        "from the data sheet"
    ),
)


@dataclass(frozen=True)
class ModelledFloor:
    """Milliseconds that a call takes at least, by the model, and which ceiling says so."""

    ms: float
    bound: Literal["products", "memory"]


def modelled_floor(folder: Path, workload: Mapping[str, Any], ceilings: Ceilings) -> ModelledFloor | None:
    """The floor of a workload of the task in `folder`, whose hidden/sol.py is executed; None where it has none."""
    path = folder / "hidden" / "sol.py"
    if not path.is_file():
        return None
    names: dict[str, Any] = {}
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), names)
    products_ms = float(names["product_flops"](workload)) / ceilings.product_tflops / 1e9
    memory_ms = float(names["compulsory_bytes"](workload)) / ceilings.memory_tbytes / 1e9
    return ModelledFloor(products_ms, "products") if products_ms > memory_ms else ModelledFloor(memory_ms, "memory")
