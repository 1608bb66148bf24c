"""Text and JSON from a task's folder; what is wrong with a file is said with its name and line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from d2k_agent.errors import UsageError


def read_text(path: Path) -> str:
    """The file's text. Raises UsageError where it is missing, unreadable or not UTF-8."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as problem:
        raise UsageError(f"{path} is not UTF-8 text (byte {problem.start}): save it as UTF-8") from None
    except FileNotFoundError:
        raise UsageError(f"{path} is missing: a task needs it") from None
    except OSError as problem:
        raise UsageError(f"{path} cannot be read ({problem.strerror}): check the path and its permissions") from None


def read_object(path: Path) -> dict[str, Any]:
    """The file's JSON object. Raises UsageError naming file and line where it is none."""
    try:
        data = json.loads(read_text(path))
    except json.JSONDecodeError as problem:
        raise UsageError(
            f"{path}, line {problem.lineno}, column {problem.colno}: {problem.msg}; correct the JSON"
        ) from None
    except RecursionError:
        raise UsageError(f"{path} is nested too deeply to be read: flatten the JSON") from None
    if not isinstance(data, dict):
        raise UsageError(f"{path}, line 1: an object {{...}} was expected, not {type(data).__name__}")
    return data
