"""What a task's workloads need at least: the counts of hidden/sol.py, which is executed, and the floors that follow.

An agent may see the reference's floor at most: what the best known algorithm needs would tell it the algorithm.
A task may be a stranger's, so the file is arithmetic and nothing else: no import, no attribute, a handful of builtins;
and it is executed apart from the process that holds the keys (arithmetic.py). Does not cover: ceilings (contract),
latencies (latencies.py).
"""

from __future__ import annotations

import ast
import dataclasses
import json
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeGuard

from d2k_agent.catalog import arithmetic
from d2k_agent.catalog.reading import read_text
from d2k_agent.catalog.task import Task
from d2k_agent.contract import Environment
from d2k_agent.contract.ceilings import PRODUCTS, Ceilings, Floor, Work, floor_of
from d2k_agent.contract.rotation import MOST_SETS, sets_for, staying_bytes
from d2k_agent.errors import MachineError, UsageError

SOL_FILE = "sol.py"
_MOST_S = 60
FUNCTIONS = ("reference_flops", "reference_bytes", "best_flops", "best_bytes")
LINK_FUNCTIONS = ("reference_link_bytes", "best_link_bytes")
"""Both or none: of a task for several ranks, what one of them sends."""
Algorithm = Literal["reference", "best"]


@dataclass(frozen=True)
class Counts:
    """What one call on a workload needs: by the reference's algorithm, and by the best one that is known."""

    reference: Work
    best: Work


class SpeedOfLight:
    """The counts of one task, by workload. `text` of hidden/sol.py is known to be arithmetic."""

    def __init__(self, slug: str, path: Path, text: str, ranks: int | None = None) -> None:
        self._slug, self._path, self._text, self._ranks = slug, path, text, ranks

    def counts(self, workload: Mapping[str, Any], ranks: int | None = None) -> Counts:
        """The counts for the parameters of a workload, as counts_each() has them."""
        return self.counts_each([workload], ranks)[0]

    def counts_each(self, workloads: Sequence[Mapping[str, Any]], ranks: int | None = None) -> list[Counts]:
        """The counts for the parameters of each workload; the file is executed once, in a process of its own.

        Raises UsageError naming task, file and line of a file that does not run, does not end or lacks a function. A
        task for several ranks is given their number as the parameter `ranks`: None is its usual one.
        """
        more = {} if self._ranks is None else {"ranks": ranks or self._ranks}
        answer = self._executed([{**workload, **more} for workload in workloads])
        if "problem" in answer:
            raise _error(self._slug, self._path, *answer["problem"])
        lines = answer["lines"]
        needed = FUNCTIONS + LINK_FUNCTIONS * any(name in lines for name in LINK_FUNCTIONS)
        missing = [name for name in needed if name not in lines]
        if missing:
            told = f"defines no {missing[0]}(workload); it needs {', '.join(needed)}"
            raise _error(self._slug, self._path, 1, told)
        return [
            Counts(self._work("reference", lines, values), self._work("best", lines, values))
            for values in answer["calls"]
        ]

    def _executed(self, workloads: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """What arithmetic.py answers."""
        asked = {
            "path": str(self._path),
            "text": self._text,
            "names": FUNCTIONS + LINK_FUNCTIONS,
            "workloads": workloads,
        }
        command = [sys.executable, "-I", "-S", "-B", arithmetic.__file__]
        given = json.dumps(asked).encode()
        try:
            done = subprocess.run(command, input=given, capture_output=True, check=False, timeout=_MOST_S)
        except subprocess.TimeoutExpired:  # not of computing, which is bounded there
            told = (
                f"the process that executes {self._path} has not answered within {_MOST_S} s: the machine is too busy"
            )
            raise MachineError(told) from None
        except OSError as problem:
            raise MachineError(f"no process can be started to execute {self._path}: {problem}") from problem
        if done.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
            raise _error(self._slug, self._path, 1, f"it computes for more than {arithmetic.COMPUTING_S} s")
        try:
            answer: dict[str, Any] = json.loads(done.stdout)
        except ValueError:
            told = f"Python ended with status {done.returncode} while it executed the file"
            raise _error(self._slug, self._path, 1, told) from None
        return answer

    def _work(self, algorithm: Algorithm, lines: Mapping[str, int], values: Mapping[str, Any]) -> Work:
        def wrong(name: str, wanted: str) -> UsageError:
            told = f"{name}(workload) must return {wanted}, not {values[name]['shown']}"
            return _error(self._slug, self._path, lines[name], told)

        flops = values[f"{algorithm}_flops"]["value"]
        if not isinstance(flops, dict) or not set(flops) <= set(PRODUCTS) or not all(map(_is_count, flops.values())):
            classes = f"counts of operations by class ({', '.join(PRODUCTS)}), finite and at least 0"
            raise wrong(f"{algorithm}_flops", classes)
        size = values[f"{algorithm}_bytes"]["value"]
        if not _is_count(size) or not size:
            raise wrong(f"{algorithm}_bytes", "a finite number of bytes above 0")
        links = f"{algorithm}_link_bytes"
        sent = values[links]["value"] if links in values else 0
        if not _is_count(sent):
            raise wrong(links, "a finite number of bytes of at least 0")
        return Work({kind: float(count) for kind, count in flops.items()}, float(size), float(sent))


def speed_of_light(task: Task) -> SpeedOfLight | None:
    """The counts of a task, which its hidden/sol.py computes; None where it has none.

    Raises UsageError naming task, file and line of a file that is no Python, or no arithmetic.
    """
    path = task.folder / "hidden" / SOL_FILE
    if not path.is_file():
        return None
    text = read_text(path)
    try:
        tree = ast.parse(text, str(path))
    except SyntaxError as problem:
        raise _error(task.slug, path, problem.lineno or 1, problem.msg) from None
    except (ValueError, MemoryError, RecursionError) as problem:  # a zero byte, or nested too deeply
        raise _error(task.slug, path, 1, f"{type(problem).__name__}: {problem}") from None
    for line, told in _beyond_arithmetic(tree):
        raise _error(task.slug, path, line, f"{told} is no arithmetic, and counts need nothing else")
    return SpeedOfLight(task.slug, path, text, next(iter(task.ranks), None))


def counts_of(task: Task, details: Mapping[str, Any] | None = None) -> dict[str, Counts]:
    """The counts of each registered workload by its label; empty where the task has none. Raises UsageError.

    `details` are those of a verdict's environment: for as many ranks as it was judged on, and for nothing over links
    where they shared a GPU. None: for the usual number of ranks, each on a GPU of its own.
    """
    sol, details = speed_of_light(task), details or {}
    if sol is None:
        return {}
    found = sol.counts_each([item.params for item in task.workloads], details.get("ranks"))
    return {item.label: counts_as_run(counts, details) for item, counts in zip(task.workloads, found, strict=True)}


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


def _is_count(value: object) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and 0 <= value < float("inf")


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
