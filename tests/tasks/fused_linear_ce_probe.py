"""Runs one implementation of fused_linear_ce in Triton's interpreter and prints every check of it as JSON.

Started by test_fused_linear_ce.py in a process of its own, since TRITON_INTERPRET must be set before triton is
imported. Arguments: the implementation's path, the order of programs (first or last first: on a GPU they run in any,
and two that store to one place give one result in one order and another in the other), and how many programs the expert
starts, which starts one where there are no multiprocessors to count.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from triton.runtime import interpreter

from d2k_agent.catalog import find_task
from d2k_agent.evaluator import numerics
from d2k_agent.evaluator.task import LoadedTask, derive


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run_the_last_first() -> None:
    """Let the programs of a launch run in the opposite order."""
    builder = interpreter.interpreter_builder
    place = builder.set_grid_idx

    def mirrored(*index: int) -> None:
        place(*(size - 1 - number for size, number in zip(builder.grid_dim, index, strict=True)))

    builder.set_grid_idx = mirrored


def spread(candidate: ModuleType, programs: int) -> None:
    """Give the expert several programs on a CPU, where it asks for one."""
    set_up = candidate._Plan.__init__

    def several(self: Any, *arguments: Any) -> None:
        set_up(self, *arguments)
        assert self.programs == 1
        self.programs = programs

    candidate._Plan.__init__ = several


def checks_of(task: LoadedTask, candidate: ModuleType, arguments: Sequence[Any]) -> list[dict[str, Any]]:
    given = [value.clone() for value in arguments]
    outputs = candidate.run(*given)
    assert all(torch.equal(now, before) for now, before in zip(given[:3], arguments[:3], strict=True))
    checks = task.compare(arguments, outputs, given[3:], task.expected(arguments))
    return [
        {"gate": f"{check.output} {check.gate}", "value": check.value, "limit": check.limit, "passed": check.passed}
        for check in checks
    ]


def main(implementation: Path, order: str, programs: int) -> None:
    numerics.install()
    if order == "last":
        run_the_last_first()
    torch.set_num_threads(1)
    task = LoadedTask(find_task("fused_linear_ce").bundle())
    candidate = load(implementation)
    if programs > 1:
        spread(candidate, programs)
    results = {}
    for workload in task.smoke:
        arguments = task.arguments(workload, derive("a", workload["label"]))
        results[workload["label"]] = checks_of(task, candidate, arguments)
    for variation in task.variations:
        name, workload = variation["name"], variation["workload"]
        if workload["N"] * workload["V"] < 200_000:  # larger ones take seconds here; `tasks check` has them
            arguments = task.vary(variation["vary"], task.arguments(workload, derive("b", name)), derive("c", name))
            results[name] = checks_of(task, candidate, arguments)
    print(json.dumps(results))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
