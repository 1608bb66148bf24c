from __future__ import annotations

from tests.sandbox.boxes import box, wall

__all__ = ["box", "wall"]
