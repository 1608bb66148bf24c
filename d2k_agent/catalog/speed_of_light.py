"""What a task's workloads need at least: the counts of hidden/sol.py, which is executed, and the floors that follow.

An agent may see the reference's floor at most: what the best known algorithm needs would tell it the algorithm.
The file is executed in the process that holds the keys, and a task may be a stranger's, so it is arithmetic and nothing
else: no import, no attribute, a handful of builtins. Does not cover: ceilings (contract), latencies (latencies.py).
"""

from __future__ import annotations

import ast
import dataclasses
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType
from typing import Any, Literal

from d2k_agent.catalog.reading import read_text
from d2k_agent.catalog.task import Task
from d2k_agent.contract import Environment
from d2k_agent.contract.ceilings import PRODUCTS, Ceilings, Floor, Work, floor_of
from d2k_agent.contract.rotation import MOST_SETS, sets_for, staying_bytes
from d2k_agent.errors import UsageError

SOL_FILE = "sol.py"
FUNCTIONS = ("reference_flops", "reference_bytes", "best_flops", "best_bytes")
LINK_FUNCTIONS = ("reference_link_bytes", "best_link_bytes")
"""Both or none: of a task for several ranks, what one of them sends."""
Algorithm = Literal["reference", "best"]
BUILTINS = {item.__name__: item for item in (abs, float, int, len, max, min, range, round, sum)}
"""All that sol.py has beside its own functions."""


@dataclass(frozen=True)
class Counts:
    """What one call on a workload needs: by the reference's algorithm, and by the best one that is known."""

    reference: Work
    best: Work


class SpeedOfLight:
    """The counts of one task, by workload."""

    def __init__(
        self,
        slug: str,
        path: Path,
        functions: Mapping[str, Callable[[Mapping[str, Any]], object]],
        ranks: int | None = None,
    ) -> None:
        self._slug, self._path, self._functions, self._ranks = slug, path, functions, ranks

    def counts(self, workload: Mapping[str, Any], ranks: int | None = None) -> Counts:
        """The counts for the parameters of a workload. Raises UsageError naming task, file and line.

        A task for several ranks is given their number as the parameter `ranks`: None is its usual one.
        """
        given = workload if self._ranks is None else {**workload, "ranks": ranks or self._ranks}
        return Counts(self._work("reference", given), self._work("best", given))

    def _work(self, algorithm: Algorithm, workload: Mapping[str, Any]) -> Work:
        flops = self._call(f"{algorithm}_flops", workload)
        known = isinstance(flops, dict) and set(flops) <= set(PRODUCTS) and all(map(_is_count, flops.values()))
        if not isinstance(flops, dict) or not known:
            wanted = f"counts of operations by class ({', '.join(PRODUCTS)}), finite and at least 0"
            raise self._wrong(f"{algorithm}_flops", f"must return {wanted}, not {flops!r:.80}")
        size = self._call(f"{algorithm}_bytes", workload)
        if not _is_count(size) or not size:
            raise self._wrong(f"{algorithm}_bytes", f"must return a finite number of bytes above 0, not {size!r:.80}")
        assert isinstance(size, (int, float))
        return Work({kind: float(count) for kind, count in flops.items()}, float(size), self._sent(algorithm, workload))

    def _sent(self, algorithm: Algorithm, workload: Mapping[str, Any]) -> float:
        name = f"{algorithm}_link_bytes"
        if name not in self._functions:
            return 0.0
        sent = self._call(name, workload)
        if not _is_count(sent):
            raise self._wrong(name, f"must return a finite number of bytes of at least 0, not {sent!r:.80}")
        assert isinstance(sent, (int, float))
        return float(sent)

    def _call(self, name: str, workload: Mapping[str, Any]) -> object:
        try:
            return self._functions[name](dict(workload))
        except Exception as problem:  # noqa: BLE001 - the task's author wrote it, and raises what they like
            raise _raised(self._slug, self._path, problem) from None

    def _wrong(self, name: str, told: str) -> UsageError:
        function = self._functions[name]
        line = function.__code__.co_firstlineno if isinstance(function, FunctionType) else 1
        return _error(self._slug, self._path, line, f"{name}(workload) {told}")


def speed_of_light(task: Task) -> SpeedOfLight | None:
    """The counts of a task, whose hidden/sol.py is executed; None where it has none.

    Raises UsageError naming task, file and line of a file that does not run or lacks a function.
    """
    path = task.folder / "hidden" / SOL_FILE
    if not path.is_file():
        return None
    names: dict[str, Any] = {"__builtins__": dict(BUILTINS)}
    try:
        tree = ast.parse(read_text(path), str(path))
        for line, told in _beyond_arithmetic(tree):
            raise _error(task.slug, path, line, f"{told} is no arithmetic, and counts need nothing else")
        exec(compile(tree, str(path), "exec"), names)
    except Exception as problem:  # noqa: BLE001 - as in _call
        raise _raised(task.slug, path, problem) from None
    needed = FUNCTIONS + LINK_FUNCTIONS * any(name in names for name in LINK_FUNCTIONS)
    missing = [name for name in needed if not callable(names.get(name))]
    if missing:
        raise _error(task.slug, path, 1, f"defines no {missing[0]}(workload); it needs {', '.join(needed)}")
    return SpeedOfLight(task.slug, path, {name: names[name] for name in needed}, next(iter(task.ranks), None))


def counts_of(task: Task, details: Mapping[str, Any] | None = None) -> dict[str, Counts]:
    """The counts of each registered workload by its label; empty where the task has none. Raises UsageError.

    `details` are those of a verdict's environment: for as many ranks as it was judged on, and for nothing over links
    where they shared a GPU. None: for the usual number of ranks, each on a GPU of its own.
    """
    sol, details = speed_of_light(task), details or {}
    if sol is None:
        return {}
    found = {item.label: sol.counts(item.params, details.get("ranks")) for item in task.workloads}
    return {label: counts_as_run(counts, details) for label, counts in found.items()}


def counts_as_run(counts: Counts, details: Mapping[str, Any]) -> Counts:
    """The counts without bytes over links, where the ranks of a verdict with these details shared a GPU."""
    gpus = set(details.get("gpus", ()))
    if not gpus or len(gpus) >= details.get("ranks", 1):
        return counts
    return Counts(*(dataclasses.replace(work, link_bytes=0.0) for work in (counts.reference, counts.best)))


def _beyond_arithmetic(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Lines with what could reach beyond the file. Without attributes and imports nothing leads to other objects."""
    for node in ast.walk(tree):
        match node:
            case ast.Import() | ast.ImportFrom():
                yield node.lineno, "an import"
            case ast.Attribute():
                yield node.lineno, f"the attribute .{node.attr}"
            case ast.Match():  # a pattern reads attributes without an Attribute
                yield node.lineno, "a match statement"
            case ast.Name() if node.id.startswith("__"):
                yield node.lineno, node.id


def _is_count(value: object) -> bool:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return number and 0 <= value < float("inf")  # type: ignore[operator]


def _raised(slug: str, path: Path, problem: BaseException) -> UsageError:
    if isinstance(problem, UsageError):
        return problem
    lines = [frame.lineno for frame in traceback.extract_tb(problem.__traceback__) if frame.filename == str(path)]
    line = problem.lineno if isinstance(problem, SyntaxError) else lines[-1] if lines else None
    told = problem.msg if isinstance(problem, SyntaxError) else f"{type(problem).__name__}: {problem!s:.200}"
    return _error(slug, path, line or 1, told)


def _error(slug: str, path: Path, line: int, told: str) -> UsageError:
    return UsageError(f"task {slug}: {path}, line {line}: {told}; correct the file")


def cache_bytes(environment: Environment) -> int | None:
    """The size of the L2 cache of the GPU that a verdict was made on, None where it does not say."""
    told = environment.details.get("l2_bytes")
    return told if isinstance(told, int) else None


def rotated_floor(
    work: Work,
    ceilings: Ceilings,
    footprint_bytes: float,
    sets: int | None = None,
    l2_bytes: int | None = None,
    *,
    in_place: bool = False,
) -> Floor | None:
    """The floor of a call that is timed over `sets` of inputs and outputs: what stays in the L2 cache is left out.

    `sets` None: as many as the timing policy takes for such a footprint, which are the bytes of one set. `l2_bytes`
    None: as the ceilings say; where nobody knows it, nothing stays. `in_place` as staying_bytes() has it.
    """
    cache = l2_bytes or ceilings.l2_bytes
    if cache is None:
        return floor_of(work, ceilings)
    size = max(1, round(footprint_bytes))
    rotated = sets or sets_for(size, cache, MOST_SETS, size)
    return floor_of(work, ceilings, staying_bytes(cache, rotated, in_place=in_place))
