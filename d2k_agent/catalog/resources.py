"""Where the data lies: inside the installed package, or beside it in a checkout."""

from __future__ import annotations

from pathlib import Path

from d2k_agent.errors import MachineError

PACKAGE = Path(__file__).resolve().parent.parent


def data_root(package: Path = PACKAGE) -> Path:
    """The folder that holds tasks/, tools/, guidance/, templates/ and traces/.

    `package`/_data, else the checkout around `package`. Raises MachineError where neither holds tasks.
    """
    for candidate in (package / "_data", package.parent):
        if (candidate / "tasks").is_dir():
            return candidate
    raise MachineError(
        f"no tasks lie in {package / '_data'} or {package.parent}: this installation is incomplete, install it again"
    )


def tasks_dir() -> Path:
    """The tasks that ship: one folder each, named by slug."""
    return data_root() / "tasks"


def tools_dir() -> Path:
    """The agent's tools: one folder each."""
    return data_root() / "tools"


def guidance_dir() -> Path:
    """What experts know, one folder a task. Never staged as it is."""
    return data_root() / "guidance"


def templates_dir() -> Path:
    """What new folders begin with, one folder a kind: task."""
    return data_root() / "templates"


def schema_dir() -> Path:
    """JSON schemas of the formats that others may write."""
    return data_root() / "traces" / "schema"


def samples_dir() -> Path:
    """Recorded runs that ship."""
    return data_root() / "traces" / "samples"


def sample_trace(slug: str, samples: Path | None = None) -> Path | None:
    """The recorded run that ships for a task: the folder `slug` or the first `slug-...` in alphabetical order."""
    folder = samples or samples_dir()
    if not folder.is_dir():
        return None
    named = sorted(entry for entry in folder.iterdir() if entry.is_dir())
    return next((entry for entry in named if entry.name == slug or entry.name.startswith(f"{slug}-")), None)
