"""Makes a confined interpreter take a package that it may not read for one that is not installed.

Under Landlock a folder of packages is listed whole, so `try: import tqdm / except ImportError` would meet a
PermissionError instead. Standard library only and nothing of this package: it runs where that cannot be read.
"""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec, PathFinder
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType


class ReadablePathFinder(PathFinder):
    """Finds what PathFinder finds, except top-level modules whose file cannot be opened."""

    @classmethod
    def find_spec(
        cls, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The module's specification, or None when it is not there or not readable."""
        spec = super().find_spec(fullname, path, target)
        if spec is None or path is not None or not spec.has_location or spec.origin is None:
            return spec
        try:
            with open(spec.origin, "rb"):
                return spec
        except PermissionError:
            return None


def skip_unreadable_packages() -> None:
    """From now on, importing a package that cannot be read raises ModuleNotFoundError."""
    sys.meta_path[:] = [ReadablePathFinder if finder is PathFinder else finder for finder in sys.meta_path]


if __name__ == "sitecustomize":
    skip_unreadable_packages()
