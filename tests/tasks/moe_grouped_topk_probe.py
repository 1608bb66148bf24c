"""Runs one implementation of moe_grouped_topk in Triton's interpreter at shapes that no workload has; prints JSON.

Started by test_moe_grouped_topk.py in a process of its own, since TRITON_INTERPRET must be set before triton is
imported. Arguments: the implementation's path, and the order of programs (first or last first): on a GPU they run in
any.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch

from d2k_agent.evaluator import numerics
from tests.tasks.muon_probe import load, run_the_last_first

ROOT = Path(__file__).resolve().parents[2]
SHAPES = {
    "groups that are no power of two": (9, 40, 5, 2, 3),
    "groups whose size is none": (6, 24, 4, 3, 5),
    "odd groups of odd size": (6, 35, 5, 2, 3),
    "all groups kept": (5, 32, 4, 4, 4),
    "one group kept": (5, 32, 4, 1, 6),
    "two experts to a group": (7, 16, 8, 3, 2),
    "one choice": (3, 48, 1, 1, 1),
    "every expert chosen": (4, 6, 1, 1, 6),
    "rows that are counted together": (39, 16, 2, 1, 2),
    "no rows": (0, 16, 2, 1, 2),
}


def drawn(shape: tuple[int, ...], generator: torch.Generator) -> list[Any]:
    """Logits on a grid, so that there are ties; one row fewer is valid than there are."""
    tokens, experts, groups, kept, topk = shape
    logits = (torch.randn(tokens, experts, generator=generator) * 4).round() / 4
    bias = (torch.randn(experts, generator=generator) * 4).round() / 4
    load_before = torch.randint(0, 100, (experts,), generator=generator, dtype=torch.int32)
    valid = torch.tensor([max(0, tokens - 1)], dtype=torch.int32)
    return [logits, bias, load_before, valid, groups, kept, topk, 2.5]


def main(implementation: Path, order: str) -> None:
    numerics.install()
    if order == "last":
        run_the_last_first()
    torch.set_num_threads(1)
    reference, candidate = load(ROOT / "tasks" / "moe_grouped_topk" / "reference.py"), load(implementation)
    generator = torch.Generator().manual_seed(5)
    results = {}
    for name, shape in SHAPES.items():
        given = drawn(shape, generator)
        copies = [[value.clone() if isinstance(value, torch.Tensor) else value for value in given] for _ in range(2)]
        weights, ids = candidate.run(*copies[0])
        right_weights, right_ids = reference.run(*copies[1])
        results[name] = {
            "ids": torch.equal(ids, right_ids),
            "weights": torch.allclose(weights, right_weights, rtol=1e-5, atol=1e-6),
            "load": torch.equal(copies[0][2], copies[1][2]),
        }
    print(json.dumps(results))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
