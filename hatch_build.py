"""Puts the folders of [tool.hatch.build.targets.wheel.hooks.custom.data] into a wheel.

A hook and not `force-include`, because hatchling would copy those folders into an editable install too, where they
go stale and show withheld guidance to whoever can list site-packages.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

WRITTEN = ("__pycache__", "traces/samples/*/scores")
"""Folders that appear beside the data when it is used: what is included by force is not filtered by .gitignore."""


class PackagedData(BuildHookInterface):  # type: ignore[type-arg]
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        root = Path(self.root)
        for source, destination in self.config["data"].items():
            if not (root / source).is_dir():
                raise FileNotFoundError(f"{source}/ is missing: build the wheel from a whole checkout or sdist")
            for path in sorted((root / source).rglob("*")):
                folders = path.relative_to(root).parents
                if path.is_file() and not any(folder.match(each) for folder in folders for each in WRITTEN):
                    name = path.relative_to(root / source).as_posix()
                    build_data["force_include"][str(path)] = f"{destination}/{name}"
