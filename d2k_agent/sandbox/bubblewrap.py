"""The bubblewrap command line: a file system in which what is not bound is not there."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from d2k_agent.isolation import Toolchain

_PROGRAMS = ("/usr/bin/bwrap", "/usr/local/bin/bwrap", "/bin/bwrap")


def find_bubblewrap() -> str | None:
    """Where bubblewrap is installed, or None."""
    return next((program for program in _PROGRAMS if os.access(program, os.X_OK)), None)


def command_line(
    program: str, toolchain: Toolchain, workspace: Path, readable: Iterable[Path], devices: Iterable[str]
) -> tuple[str, ...]:
    """Everything before the command: own process, network, IPC and mount namespaces, no capabilities."""
    trees = [tree for tree in (*toolchain.trees, *readable) if not tree.is_relative_to("/proc")]
    arguments = [program, "--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    arguments += ["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"]
    for device in devices:
        arguments += ["--dev-bind", device, device]
    arguments += _binds(trees, toolchain.hidden)
    arguments += ["--bind", str(workspace), str(workspace), "--chdir", str(workspace)]
    return tuple(arguments)


def _binds(trees: Iterable[Path], hidden: Iterable[Path]) -> Iterator[str]:
    """Bind the trees, cover what is hidden inside them with empty folders, then bind what is visible in those."""
    resolved = {tree.resolve() for tree in trees}
    steps = sorted([*((path, False) for path in resolved), *((path, True) for path in hidden)])
    bound: list[Path] = []
    covers: list[Path] = []
    for path, cover in steps:
        outer = max((other for other in (*bound, *covers) if path.is_relative_to(other)), default=None)
        visible = outer is not None and outer in bound
        if cover and visible:
            covers.append(path)
            yield from ("--tmpfs", str(path))
        elif not cover and not visible:
            bound.append(path)
            yield from ("--ro-bind", str(path), str(path))
    for link in dict.fromkeys(link for tree in trees for link in _links(tree)):
        if not any(link.is_relative_to(tree) for tree in bound):
            yield from ("--symlink", str(link.readlink()), str(link))
    for path in covers:
        yield from ("--remount-ro", str(path))


def _links(path: Path) -> Iterator[Path]:
    """The symbolic links that lead from `path` to where it really lies."""
    for part in (*reversed(path.parents), path):
        if part.is_symlink():
            yield part
            target = part.parent / part.readlink() / path.relative_to(part)
            yield from _links(Path(os.path.normpath(target)))
            return
