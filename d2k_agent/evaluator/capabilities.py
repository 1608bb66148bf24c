"""Run as a program: prints what this interpreter offers an evaluator, as one line of JSON. Nothing else imports it.

`doctor` sends this text to the evaluator's interpreter, so it stands alone: no import of ours. None means absent.
"""

from __future__ import annotations

import importlib
import json
import os
import platform
import sys
from typing import Any


def version(module: str) -> str | None:
    """The version of an importable module; None where importing it fails, for whatever reason of its own."""
    try:
        return str(importlib.import_module(module).__version__)
    except Exception:  # noqa: BLE001 - a broken installation raises what it likes; all of it means "not usable"
        return None


def tools() -> dict[str, str | None]:
    """Paths of the binaries that come with Triton."""
    try:
        from triton import knobs
    except Exception:  # noqa: BLE001 - as in version()
        return {"ptxas": None, "cuobjdump": None}
    found = {}
    for name in ("ptxas", "cuobjdump"):
        try:
            path = str(getattr(knobs.nvidia, name).path)
        except (AttributeError, RuntimeError):  # which of them depends on the version
            path = ""
        found[name] = path if os.path.exists(path) else None
    return found


def gpus() -> list[str]:
    """Names of the GPUs that torch can use."""
    try:
        import torch
    except Exception:  # noqa: BLE001 - as in version()
        return []
    return [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]


def interpreter() -> bool:
    """True when Triton can interpret kernels here: it needs numpy."""
    try:
        import triton.runtime.interpreter  # noqa: F401
    except Exception:  # noqa: BLE001 - as in version()
        return False
    return True


def capabilities() -> dict[str, Any]:
    """All of it."""
    return {
        "python": platform.python_version(),
        "torch": version("torch"),
        "triton": version("triton"),
        "numpy": version("numpy"),
        "interpreter": interpreter(),
        "tools": tools(),
        "gpus": gpus(),
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(capabilities()) + "\n")
