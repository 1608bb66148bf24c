"""Kernels that a task's author knows to be wrong: the gates must find each of them, at the check that it names."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from d2k_agent.catalog.reading import read_object, read_text
from d2k_agent.catalog.resources import schema_dir
from d2k_agent.catalog.schema import problems
from d2k_agent.catalog.task import Task
from d2k_agent.errors import UsageError

WRONG_FILE = "wrong.toml"


@dataclass(frozen=True)
class WrongKernel:
    """A source that must fail, and the check at which it must: "OUTPUT GATE", or the name of a rule; a pattern of file
    names where chance decides between several ("y *": any gate of y).
    """

    name: str
    text: str
    fails: str


def wrong_kernels(task: Task) -> list[WrongKernel]:
    """Those of wrong.toml in the task's guidance; none where there is no such file.

    Raises UsageError for a file that does not fit its schema, or no longer fits the source that it changes.
    """
    path = None if task.guidance is None else task.guidance / WRONG_FILE
    if path is None or not path.is_file():
        return []
    try:
        data = tomllib.loads(read_text(path))
    except tomllib.TOMLDecodeError as broken:
        raise UsageError(f"{path}: {broken}; correct the TOML") from None
    for problem in problems(read_object(schema_dir() / "wrong.schema.json"), data):
        raise UsageError(f"{path}: {problem}")
    return [_made(entry, path) for entry in data["wrong"]]


def _made(entry: dict[str, Any], path: Path) -> WrongKernel:
    text = read_text(path.parent / entry["source"])
    for pair in entry["replace"]:
        old, new = pair[0], pair[-1]
        if text.count(old) != 1:
            raise UsageError(
                f"{path}: {entry['name']} replaces {old!r}, which {entry['source']} has {text.count(old)} times: "
                "name a text that is there once"
            )
        text = text.replace(old, new)
    return WrongKernel(entry["name"], text, entry["fails"])
