"""Puts the folders of [tool.hatch.build.targets.wheel.hooks.custom.data] into a wheel.

A hook and not `force-include`, because hatchling would copy those folders into an editable install too, where they
go stale and show withheld guidance to whoever can list site-packages.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class PackagedData(BuildHookInterface):  # type: ignore[type-arg]
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        for source, destination in self.config["data"].items():
            if not (Path(self.root) / source).is_dir():
                raise FileNotFoundError(f"{source}/ is missing: build the wheel from a whole checkout or sdist")
            build_data["force_include"][source] = destination
