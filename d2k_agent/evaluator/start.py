"""The evaluator's first steps on whatever machine it was brought to, before torch is imported."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import sys

from d2k_agent.contract.frames import read_frame, write_frame
from d2k_agent.contract.gpu import gpu_variables, no_gpu
from d2k_agent.isolation import gpu_devices


def start(archive: bytes) -> None:
    """Take the order that follows the archive on stdin, then serve until stdin closes.

    The order is a frame b"S" with a JSON object: `gpu` is the GPU to see, null for all that are visible.
    """
    frame = read_frame(0)
    if frame is None:
        return
    gpu = json.loads(frame[1])["gpu"]
    os.chdir("/")  # wherever a command prefix led
    os.environ.pop("SSH_AUTH_SOCK", None)  # an agent that signs with the user's keys is nothing for a candidate
    try:
        _complete()
        os.environ.update(_chosen(gpu))
    except ValueError as problem:
        if read_frame(0):
            write_frame(1, b"T", str(problem).encode())
        return
    from d2k_agent.evaluator.server import main

    main(hashlib.sha256(archive).hexdigest())


def _complete() -> None:
    """Raises ValueError where this Python lacks what judging takes."""
    missing = [name for name in ("torch", "triton") if importlib.util.find_spec(name) is None]
    if missing:
        raise ValueError(
            f"the Python that was to judge, {sys.executable}, has no {' and no '.join(missing)}: name one that has "
            "(--evaluator-python; score.py is started with it)"
        )


def _chosen(gpu: str | None) -> dict[str, str]:
    """The variables that show the wanted GPU alone. Raises ValueError where it cannot be had."""
    if gpu is not None and not gpu_devices():
        raise ValueError(no_gpu(gpu))
    return gpu_variables(gpu, os.environ)
