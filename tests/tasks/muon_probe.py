"""Runs one implementation of Muon in Triton's interpreter and prints, as JSON, how far it is from the reference.

Started by test_muon_numerics.py in a process of its own, since TRITON_INTERPRET must be set before triton is imported.
Arguments: the repository's root, the implementation's path, and the order of programs (first or last first): on a GPU
they run in any, and two that store to one place give one result in one order and another in the other.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from triton.runtime import interpreter

from d2k_agent.evaluator import numerics

SHAPES = {"tall": (90, 40), "leading_dimensions": (2, 1, 24, 70), "half_a_block": (2, 32, 80)}
REFUSED = {"four_steps": ((2, 8, 16), 4), "one_dimension": ((16,), 5)}


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def compare(candidate: ModuleType, reference: ModuleType, arguments: list[Any]) -> dict[str, Any]:
    before = arguments[0].clone()
    output, expected = candidate.run(*arguments), reference.run(*arguments).double()
    difference = output.double() - expected
    norms = torch.linalg.vector_norm(expected, dim=-1)
    rows = torch.linalg.vector_norm(difference, dim=-1) / torch.where(norms > 0, norms, 1.0)
    return {
        "rel_norm": float(torch.linalg.vector_norm(difference) / torch.linalg.vector_norm(expected)),
        "row_norm": float(rows.max()),
        "finite": bool(output.isfinite().all()),
        "like_input": output.shape == before.shape and output.dtype == before.dtype,
        "input_kept": torch.equal(before, arguments[0]),
        "zero_matrices": sum(not bool(matrix.any()) for matrix in output.view(-1, *output.shape[-2:])),
    }


def refuses(candidate: ModuleType, shape: tuple[int, ...], steps: int) -> bool:
    try:
        candidate.run(torch.ones(shape, dtype=torch.bfloat16), steps)
    except ValueError:
        return True
    return False


def run_the_last_first() -> None:
    """Let the programs of a launch run in the opposite order."""
    builder = interpreter.interpreter_builder
    place = builder.set_grid_idx

    def mirrored(*index: int) -> None:
        place(*(size - 1 - number for size, number in zip(builder.grid_dim, index, strict=True)))

    builder.set_grid_idx = mirrored


def spread(candidate: ModuleType) -> None:
    """Give the expert, which starts a program for each multiprocessor, several on a CPU, where it asks for one."""
    set_up = candidate._Shape.__init__

    def several(self: Any, *arguments: Any) -> None:
        set_up(self, *arguments)
        assert self.programs == 1
        self.programs = 16

    candidate._Shape.__init__ = several


def main(root: Path, implementation: Path, order: str) -> None:
    numerics.install()
    if order == "last":
        run_the_last_first()
    torch.set_num_threads(1)
    task = root / "tasks" / "muon"
    reference, inputs, check = (load(task / name) for name in ("reference.py", "get_inputs.py", "hidden/check.py"))
    candidate = load(implementation)
    if implementation.name == "expert.py":
        spread(candidate)
    hidden = json.loads((task / "hidden" / "workloads.json").read_text())
    results: dict[str, Any] = {"smoke": {}, "variations": {}, "shapes": {}, "refused": {}}
    for workload in hidden["smoke"]:
        arguments = inputs.get_inputs({**workload, "seed": 11, "device": "cpu"})
        results["smoke"][workload["label"]] = compare(candidate, reference, arguments)
    generator = torch.Generator().manual_seed(12)
    for variation in hidden["variations"]:
        if not variation.get("late"):
            given = inputs.get_inputs({**variation["workload"], "seed": 13, "device": "cpu"})
            varied = getattr(check, variation["vary"])(given, generator)
            results["variations"][variation["name"]] = compare(candidate, reference, varied)
    for name, shape in SHAPES.items():
        values = torch.randn(shape, generator=generator).to(torch.bfloat16)
        results["shapes"][name] = compare(candidate, reference, [values, 5])
    for name, (shape, steps) in REFUSED.items():
        results["refused"][name] = refuses(candidate, shape, steps)
    print(json.dumps(results))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
