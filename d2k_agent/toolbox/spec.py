"""A tool is a folder: tool.toml says what it is, bin/<name> does it. The folder is the registration."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from d2k_agent.errors import UsageError
from d2k_agent.toolbox.schema import check_schema

_KEYS: dict[str, type | tuple[type, ...]] = {
    "name": str,
    "description": str,
    "where": str,
    "limit_s": (int, float),
    "output_chars": int,
    "parameters": dict,
}
_OPTIONAL_KEYS: dict[str, type] = {
    "limit_argument": str,
    "gpu_argument": str,
    "path_arguments": list,
    "then_argument": str,
    "changes_argument": str,
    "on_request": bool,
}


@dataclass(frozen=True)
class ToolSpec:
    """One tool as its folder describes it.

    `parameters` is a JSON schema; `limit_s` the longest that a call may take, which the argument named
    `limit_argument` can shorten (of a host tool it is what the host promises); `output_chars` the longest text that a
    model is given. `gpu_argument` names the boolean argument that asks for the GPU. In `path_arguments` the portable
    /workspace is understood. `then_argument` names a boolean argument that is also a tool's name: when it is set and
    the call went well, that tool is called with the same path, and its text follows. `changes_argument` names the
    argument with the one file that a call changes, where a second call would change it again. `on_request`: only runs
    that ask for it offer the tool.
    """

    name: str
    description: str
    parameters: dict[str, Any]
    where: Literal["sandbox", "host"]
    limit_s: float
    output_chars: int
    executable: Path | None = None
    limit_argument: str | None = None
    gpu_argument: str | None = None
    path_arguments: tuple[str, ...] = ()
    then_argument: str | None = None
    changes_argument: str | None = None
    on_request: bool = False

    def schema(self) -> dict[str, Any]:
        """The tool in the form that model interfaces of OpenAI's kind take."""
        function = {"name": self.name, "description": self.description, "parameters": self.parameters}
        return {"type": "function", "function": function}


def load_tools(folder: Path) -> dict[str, ToolSpec]:
    """Every tool in `folder`, by name, in alphabetical order. Raises UsageError naming the file that is wrong."""
    files = sorted(folder.resolve().glob("*/tool.toml"))
    if not files:
        raise UsageError(f"no tools in {folder}: a tool is a folder with a tool.toml")
    return {file.parent.name: _load(file) for file in files}


def _load(file: Path) -> ToolSpec:
    try:
        data = tomllib.loads(file.read_text("utf-8"))
        _check_keys(data)
        if data["name"] != file.parent.name:
            raise ValueError(f"name is {data['name']!r}, but the folder is {file.parent.name!r}")
        check_schema(data["parameters"])
        named = [data.get(key) for key in ("limit_argument", "gpu_argument", "then_argument", "changes_argument")]
        for argument in (*named, *data.get("path_arguments", ())):
            if argument is not None and argument not in data["parameters"].get("properties", {}):
                raise ValueError(f"{argument!r} is not among the parameters")
        data["path_arguments"] = tuple(data.get("path_arguments", ()))
        return ToolSpec(**data, executable=_executable(file.parent, data["where"]))
    except (OSError, ValueError) as problem:  # tomllib's and UTF-8's errors are ValueErrors
        raise UsageError(f"{file}: {problem}; tools/README.md says what a tool.toml holds") from None


def _check_keys(data: dict[str, Any]) -> None:
    for key, kind in _KEYS.items():
        if key not in data:
            raise ValueError(f"{key} is missing")
        if not isinstance(data[key], kind) or isinstance(data[key], bool):
            raise ValueError(f"{key} has the wrong type")
    for key in data.keys() - _KEYS.keys():
        if key not in _OPTIONAL_KEYS:
            raise ValueError(f"{key!r} is not a key of a tool")
        if not isinstance(data[key], _OPTIONAL_KEYS[key]):
            raise ValueError(f"{key} has the wrong type")
    if data["where"] not in ("sandbox", "host"):
        raise ValueError('where must be "sandbox" or "host"')
    if data["limit_s"] <= 0 or data["output_chars"] < 1000:
        raise ValueError("limit_s must be positive and output_chars at least 1000")


def _executable(folder: Path, where: str) -> Path | None:
    program = folder / "bin" / folder.name
    if where == "host":
        if program.exists():
            raise ValueError(f"a host tool has no program, but there is {program}")
        return None
    if not program.is_file():
        raise ValueError(f"its program {program} does not exist")
    return program
