"""Command prefixes as users have them, made of what every Linux has."""

from __future__ import annotations

import sys
from pathlib import Path

PATH = f"{Path(sys.executable).parent}:/usr/bin:/bin"


def script(path: Path, text: str) -> Path:
    """An executable shell script."""
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def like_ssh(folder: Path, greets: str = "") -> list[str]:
    """A prefix that joins its words with spaces and gives the line to a login shell elsewhere, as ssh does."""
    home = folder / "home"
    home.mkdir(exist_ok=True)
    # What the remote shell finds in its folder must not be imported in place of the standard library.
    (home / "json.py").write_text("raise SystemExit('a stranger was imported')\n")
    text = f'shift\ncd {home} || exit 1\n{greets}\nexec env -i HOME={home} PATH={PATH} /bin/sh -c "$*"'
    return [str(script(folder / "like-ssh", text)), "somewhere"]


def like_docker(folder: Path) -> list[str]:
    """A prefix that hands its words on as they are: own folder, own environment and, where allowed, own network."""
    box = folder / "box"
    box.mkdir(exist_ok=True)
    unshare = "unshare -rn true 2>/dev/null && own='unshare -rn'"
    text = f'shift\ncd {box} || exit 1\n{unshare}\nexec env -i PATH={PATH} INSIDE=box $own "$@"'
    return [str(script(folder / "like-docker", text)), "exec"]


def with_terminal() -> list[str]:
    """A prefix that gives its command a terminal, as ssh -tt and srun --pty do."""
    return [sys.executable, "-c", "import pty, sys; sys.exit(pty.spawn(sys.argv[1:]))"]
