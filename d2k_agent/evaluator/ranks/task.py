"""A task for several ranks in the form of one for a single rank: arguments and outputs of all ranks in a row.

Arguments are [bytes of workspace, those of rank 0, those of rank 1, ...], without `comm`, which each process makes for
itself; outputs and changed arguments follow rank after rank.
"""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from d2k_agent.contract import Check, TaskBundle
from d2k_agent.evaluator.faults import TaskFault
from d2k_agent.evaluator.ranks.gathering import Gathering, together
from d2k_agent.evaluator.state import Mutated
from d2k_agent.evaluator.task import Expected, LoadedTask, derive

MOST_RANKS = 8


def per_rank(arguments: Sequence[Any], world: int) -> tuple[int, list[list[Any]]]:
    """The bytes of workspace, and the arguments of each rank, of arguments in a row."""
    size, rest = int(arguments[0]), list(arguments[1:])
    return size, parts(rest, world)


def parts(values: Sequence[Any], world: int) -> list[list[Any]]:
    """What belongs to each rank, of values in a row."""
    count = len(values) // world
    return [list(values[rank * count : (rank + 1) * count]) for rank in range(world)]


def gpu_of(rank: int) -> int:
    """The GPU of a rank: ranks share GPUs where there are fewer of them."""
    return rank % max(1, int(torch.cuda.device_count()))


class RankedTask(LoadedTask):
    """The task on `ranks` ranks. Workloads carry the number as `ranks`; get_inputs is told `rank` as well.

    Inputs of a rank come from a seed of its own. A variation is given the inputs of all ranks, a list a rank, and
    returns as many. `get_inputs.py` also defines workspace_bytes(config).
    """

    def __init__(self, bundle: TaskBundle, one: LoadedTask, ranks: int) -> None:
        super().__init__(bundle)
        self._one, self.ranks = one, ranks
        names = list(inspect.signature(self._reference.run).parameters)
        if names[-1:] != ["comm"]:
            raise TaskFault(f"task {self.slug}: the last argument of run() must be comm, since it is for several ranks")
        if not callable(getattr(self._generator, "workspace_bytes", None)):
            raise TaskFault(f"task {self.slug}: get_inputs.py defines no workspace_bytes(config)")
        each = len(names) - 1
        self.mutated = [
            Mutated(item.name, 1 + rank * each + item.position, item.effect)
            for rank in range(ranks)
            for item in one.mutated
        ]
        self.output_names = one.output_names * ranks
        self.registered = [self._ranked(workload) for workload in one.registered]
        self.smoke = [self._ranked(workload) for workload in one.smoke]
        self.variations = [{**item, "workload": self._ranked(item["workload"])} for item in one.variations]

    def _ranked(self, workload: dict[str, Any]) -> dict[str, Any]:
        return {**workload, "ranks": self.ranks}

    def arguments(self, workload: dict[str, Any], seed: str, device: str = "cpu") -> list[Any]:
        """Fresh arguments of all ranks in a row."""
        values = [int(self._call("get_inputs.py", self._generator.workspace_bytes, dict(workload)))]
        for rank in range(self.ranks):
            place = f"cuda:{gpu_of(rank)}" if device == "cuda" else device
            values += self._one.arguments({**workload, "rank": rank}, derive(seed, "rank", rank), place)
        return values

    def vary(self, name: str, arguments: Sequence[Any], seed: str) -> list[Any]:
        """The arguments of a hidden variation, all ranks in a row."""
        size, inputs = per_rank(arguments, self.ranks)
        varied = self._one.vary_all(name, inputs, seed)
        return [size, *(value for values in varied for value in values)]

    def reference(self, arguments: Sequence[Any]) -> list[torch.Tensor]:
        """The outputs of the reference, which ran on all ranks at once."""
        _, inputs = per_rank(arguments, self.ranks)

        def run(comm: Gathering) -> list[torch.Tensor]:
            with _on(inputs[comm.rank]):
                return self._one.reference([*inputs[comm.rank], comm])

        return [output for outputs in together(self.ranks, run) for output in outputs]

    def compare(
        self,
        arguments: Sequence[Any],
        outputs: Sequence[torch.Tensor],
        state: Sequence[torch.Tensor],
        expected: Expected,
        calls: int = 1,
    ) -> list[Check]:
        """The gates, rank after rank; the first rank that is wrong ends the list, and its checks name it."""
        checks: list[Check] = []
        given, left = parts(outputs, self.ranks), parts(state, self.ranks)
        for rank, (inputs, right) in enumerate(self._by_rank(arguments, expected)):
            found = self._one.compare(inputs, given[rank], left[rank], right, calls)
            checks += [
                check if check.passed else dataclasses.replace(check, message=f"rank {rank}: {check.message}")
                for check in found
            ]
            if not all(check.passed for check in found):
                break
        return checks

    def specified(self, arguments: Sequence[Any], expected: Expected) -> list[bool]:
        """Of each output of each rank, whether any gate looks at it."""
        by_rank = self._by_rank(arguments, expected)
        return [known for inputs, right in by_rank for known in self._one.specified(inputs, right)]

    def _by_rank(self, arguments: Sequence[Any], expected: Expected) -> Iterator[tuple[list[Any], Expected]]:
        outputs, states = parts(expected.outputs, self.ranks), parts(expected.state, self.ranks)
        for rank, inputs in enumerate(per_rank(arguments, self.ranks)[1]):
            yield inputs, Expected(outputs[rank], states[rank])

    def link_bytes(self, workload: dict[str, Any]) -> float | None:
        """The bytes that each rank has to send to others in a call, on average; None where the task does not say."""
        return self._bound("link_bytes", workload)


def _on(inputs: Sequence[Any]) -> Any:
    """A context in which the GPU of these inputs is the current one."""
    places = [value.device for value in inputs if isinstance(value, torch.Tensor)]
    on_gpu = places and places[0].type == "cuda"
    return torch.cuda.device(places[0]) if on_gpu else contextlib.nullcontext()
