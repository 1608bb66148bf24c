"""Is a task's folder complete and consistent, and does it keep its secrets? Reads and parses.

Runs nothing of it but the arithmetic of hidden/sol.py.
"""

from __future__ import annotations

import ast
import itertools
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from d2k_agent.catalog.latencies import source_latencies
from d2k_agent.catalog.levels import LEVELS
from d2k_agent.catalog.reading import read_object, read_text
from d2k_agent.catalog.resources import schema_dir
from d2k_agent.catalog.scaffold import UNWRITTEN
from d2k_agent.catalog.schema import problems
from d2k_agent.catalog.secrecy import leaks
from d2k_agent.catalog.speed_of_light import Counts, counts_of, rotated_floor
from d2k_agent.catalog.staging import staged_files
from d2k_agent.catalog.task import HIDDEN_FILES, SHARED_FILES, Task
from d2k_agent.catalog.wrong import WRONG_FILE, wrong_kernels
from d2k_agent.contract.ceilings import Ceilings
from d2k_agent.contract.data_sheets import DATA_SHEETS, data_sheet
from d2k_agent.errors import UsageError

SOURCES = ("expert.py", "baseline.py")
PROOFS = {
    "expert.py": "it shows that the gates can be reached",
    "baseline.py": "speedups are over it",
    WRONG_FILE: "it shows that the gates tell right from wrong",
}
SHOWN = 5


@dataclass(frozen=True)
class Finding:
    """One check of a task: its name, whether it passed, and what is to be corrected (empty where it passed).

    `seen` is what was looked at where it passed; empty where the name says it.
    """

    check: str
    passed: bool
    message: str
    seen: str = ""


def check_task(task: Task) -> list[Finding]:
    """Every check in order. A check whose files are broken fails with the reason; the others still run."""
    return [_run(name, check, task) for name, check in CHECKS.items()]


def _run(name: str, check: Callable[[Task], Iterator[str]], task: Task) -> Finding:
    try:
        found = list(check(task))
    except UsageError as problem:
        found = [str(problem)]
    return Finding(
        name, not found, "; ".join(found[:SHOWN]) + (f"; {len(found) - SHOWN} more" if len(found) > SHOWN else "")
    )


def _files(task: Task) -> Iterator[str]:
    for name in SHARED_FILES:
        if not (task.folder / name).is_file():
            yield f"{name} is missing"
        elif not read_text(task.folder / name).strip():
            yield f"{name} is empty"
    for name in HIDDEN_FILES:
        if not (task.folder / "hidden" / name).is_file():
            yield f"hidden/{name} is missing"


def _written(task: Task) -> Iterator[str]:
    """Nothing of a scaffold is left that its author was to write."""
    hidden = [task.folder / "hidden" / name for name in HIDDEN_FILES]
    apart = [] if task.guidance is None else [task.guidance / name for name in ("guidance.json", *SOURCES)]
    for path in (*(task.folder / name for name in SHARED_FILES), *hidden, *apart):
        lines = read_text(path).splitlines() if path.is_file() else []
        open_lines = [number for number, line in enumerate(lines, 1) if UNWRITTEN in line]
        if open_lines:
            places = "1 place" if len(open_lines) == 1 else f"{len(open_lines)} places"
            yield f"{path.name} has {places} left to write, the first in line {open_lines[0]}"


def _config(task: Task) -> Iterator[str]:
    yield from _schema_problems("config", task.folder / "config.json")


def _workloads(task: Task) -> Iterator[str]:
    yield from _schema_problems("workloads", _hidden_path(task))


def _schema_problems(schema: str, path: Path) -> Iterator[str]:
    for problem in problems(read_object(schema_dir() / f"{schema}.schema.json"), read_object(path)):
        yield f"{path.name}: {problem}"


def _hidden_path(task: Task) -> Path:
    return task.folder / "hidden" / "workloads.json"


def _hidden(task: Task) -> dict[str, Any]:
    """hidden/workloads.json where it fits its schema, a UsageError otherwise: what builds on it then fails in words."""
    for problem in _schema_problems("workloads", _hidden_path(task)):
        raise UsageError(f"correct the check 'workloads' first ({problem})")
    return read_object(_hidden_path(task))


def _labels(task: Task) -> Iterator[str]:
    hidden = _hidden(task)
    labels = [workload.label for workload in task.workloads]
    labels += [entry["label"] for entry in hidden["smoke"]]
    labels += [entry["workload"]["label"] for entry in hidden["variations"]]
    for label, count in Counter(labels).items():
        if count > 1:
            yield f"label {label} is used {count} times"


def _functions(path: Path) -> dict[str, list[str]]:
    """Argument names of the module-level functions of a file. Raises UsageError where it does not parse."""
    try:
        tree = ast.parse(read_text(path), str(path))
    except (SyntaxError, ValueError) as problem:
        line = getattr(problem, "lineno", None) or 1
        raise UsageError(f"{path}, line {line}: {getattr(problem, 'msg', problem)}; correct the Python") from None
    return {node.name: [a.arg for a in node.args.args] for node in tree.body if isinstance(node, ast.FunctionDef)}


def _python(task: Task) -> Iterator[str]:
    reference = _functions(task.folder / "reference.py")
    template = _functions(task.folder / "solution.py")
    if "get_inputs" not in _functions(task.folder / "get_inputs.py"):
        yield "get_inputs.py defines no get_inputs(config)"
    if "run" not in reference:
        yield "reference.py defines no run(...)"
    if reference.get("run") != template.get("run"):
        yield "run(...) of solution.py and of reference.py take different arguments"


def _hidden_checks(task: Task) -> Iterator[str]:
    folder = task.folder / "hidden"
    defined = _functions(folder / "check.py")
    wanted = {entry["vary"] for entry in _hidden(task)["variations"]}
    for name in sorted({"memory_cap_bytes", *wanted} - set(defined)):
        yield f"check.py defines no {name}(...)"
    yield from _rules(folder / "rules.toml")


def _rules(path: Path) -> Iterator[str]:
    try:
        rules = tomllib.loads(read_text(path))
    except tomllib.TOMLDecodeError as broken:
        yield f"rules.toml: {broken}"
        return
    for problem in problems(read_object(schema_dir() / "rules.schema.json"), rules):
        yield f"rules.toml: {problem}"


def _sources(task: Task) -> Iterator[str]:
    """What the proof runs is there, and is Python."""
    if task.guidance is None:
        yield "there is no guidance folder: such a task can be solved, and nothing shows that its gates can be reached"
        return
    for name, shows in PROOFS.items():
        path = task.guidance / name
        if not path.is_file():
            yield f"{path} is missing: {shows}"
        elif path.suffix == ".py" and "run" not in _functions(path):
            yield f"{path} defines no run(...)"


def _guidance(task: Task) -> Iterator[str]:
    if task.guidance is None:
        return
    guidance = task.guidance_data()
    design = guidance["level_2_dataflow_design"]
    stages = {stage["stage_id"] for stage in design["stages"]}
    names = stages | {insight["name"] for insight in guidance["level_1_high_level_algorithmic_insights"]}
    for edge in design["edges"]:
        for end in {edge["from"], edge["to"]} - stages - {"input", "output"}:
            yield f"an edge names {end!r}, which is no stage"
    for trick in guidance["level_3_low_level_optimization_tricks"]:
        for name in set(trick["supports"]) - names:
            yield f"{trick['name']!r} supports {name!r}, which is no item of L1 and no stage of L2"


def _secrecy(task: Task) -> Iterator[str]:
    if task.guidance is None:
        return
    guidance: dict[str, Any] = task.guidance_data()
    sources = {name: read_text(task.guidance / name) for name in SOURCES if (task.guidance / name).is_file()}
    for count in range(len(LEVELS) + 1):
        for levels in itertools.combinations(LEVELS, count):
            for leak in leaks(staged_files(task, levels), guidance, levels, sources):
                yield f"staged with {','.join(levels) or 'no level'}: {leak}"


def _wrong(task: Task) -> Iterator[str]:
    names = Counter(kernel.name for kernel in wrong_kernels(task))
    for name, count in names.items():
        if count > 1:
            yield f"{count} wrong kernels are called {name}"


def _speed_of_light(task: Task) -> Iterator[str]:
    """The counts are counts, no more for the best known algorithm than for the reference, and no floor is too high."""
    latencies = source_latencies(task.folder)
    for label, counts in counts_of(task).items():
        best, reference, known = counts.best, counts.reference, latencies.get(label)
        sheet = None if known is None else data_sheet(known.device)
        above = _above_reference(counts, DATA_SHEETS if sheet is None else (sheet,))
        if above is not None:
            yield f"hidden/sol.py: on {label} {above}"
        elif best.flops > reference.flops and best.memory_bytes > reference.memory_bytes:
            yield f"hidden/sol.py: on {label} the best known algorithm has more operations and bytes than the reference"
        floor = None if sheet is None else rotated_floor(best, sheet, reference.memory_bytes)
        if known is not None and floor is not None and known.expert_ms < floor.ms:
            yield (
                f"hidden/sol.py: on {label} the expert took {known.expert_ms:.4g} ms on {known.device}, below the data "
                f"sheet's floor of {floor.ms:.4g} ms: it does less than is counted, or was measured wrongly"
            )


def _above_reference(counts: Counts, sheets: Sequence[Ceilings]) -> str | None:
    """That the best known algorithm needs more than the reference on the first GPU, where it does on all of them.

    On one of several it may well: fewer bytes for more operations pay where memory is slow.
    """
    size, told = counts.reference.memory_bytes, []
    for sheet in sheets:
        best, reference = (rotated_floor(work, sheet, size) for work in (counts.best, counts.reference))
        if best is None or reference is None or best.ms <= reference.ms:
            return None
        told.append(
            f"the best algorithm's floor of {best.ms:.4g} ms is above the reference's of {reference.ms:.4g} ms, "
            f"by the data sheet of {sheet.device_name}: what is best known needs no more than the reference"
        )
    return told[0] if told else None


CHECKS: dict[str, Callable[[Task], Iterator[str]]] = {
    "files": _files,
    "written": _written,
    "config": _config,
    "workloads": _workloads,
    "labels": _labels,
    "python": _python,
    "hidden": _hidden_checks,
    "guidance": _guidance,
    "secrecy": _secrecy,
    "sources": _sources,
    "wrong.toml": _wrong,
    "speed of light": _speed_of_light,
}
