"""The checkout as the tests of its structure read it."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Module:
    """One file of the package: `path` relative to the checkout, `name` as it is imported."""

    path: str

    @property
    def name(self) -> str:
        return self.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")

    @cached_property
    def text(self) -> str:
        return (ROOT / self.path).read_text(encoding="utf-8")

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    def imports(self) -> Iterator[str]:
        """The dotted name of every import, at whatever depth of the file; relative ones are made absolute."""
        package = self.name if self.path.endswith("__init__.py") else self.name.rpartition(".")[0]
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                base = package.rsplit(".", node.level - 1)[0] if node.level else ""
                module = ".".join(part for part in (base, node.module) if part)
                yield from (f"{module}.{alias.name}" for alias in node.names)


def modules(folder: str = "d2k_agent") -> list[Module]:
    """Every module below a folder of the checkout, packaged data left out."""
    found = sorted((ROOT / folder).rglob("*.py"))
    paths = [path.relative_to(ROOT) for path in found]
    return [Module(path.as_posix()) for path in paths if "_data" not in path.parts]


def repository_files() -> list[Path] | None:
    """Every file that is committed or would be, or None outside a git checkout."""
    if not (ROOT / ".git").exists():
        return None
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout.decode()
    return [ROOT / name for name in listed.split("\0") if name and (ROOT / name).is_file()]
