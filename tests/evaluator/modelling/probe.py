"""Models every candidate of cases.py, each in a fork of this process, and prints the answers as JSON by name.

Started by test_modelling.py as a process of its own, with TRITON_INTERPRET=1.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from d2k_agent.contract.wire import to_data
from d2k_agent.evaluator import interpreting, numerics
from d2k_agent.evaluator.modelling.job import bound_memory, model_candidate
from tests.evaluator.modelling.cases import CASES


def arguments(expression: str) -> Callable[[str], list[Any]]:
    """What makes the arguments of run() on a device."""
    return lambda device: list(eval(expression, {"torch": torch, "device": device}))


def answer(name: str, folder: Path, write: int) -> None:
    """The life of a fork: one model, its answer and its peak of memory."""
    source, expression, limit_s = CASES[name]
    path = folder / f"{name.replace(chr(32), chr(95))}.py"
    path.write_text(source, encoding="utf-8")
    bound_memory()
    told = to_data(model_candidate(str(path), [("w", arguments(expression))], "h200", limit_s))
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    os.write(write, json.dumps({**told, "peak_mib": peak_mib}).encode())


def main() -> None:
    """Fork once a case, one after the other."""
    numerics.install()
    interpreting.prepare()
    answers = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in sys.argv[1:] or CASES:
            read, write = os.pipe()
            pid = os.fork()
            if pid == 0:
                try:
                    answer(name, Path(folder), write)
                finally:
                    os._exit(0)
            os.close(write)
            with open(read, "rb") as pipe:
                answers[name] = json.loads(pipe.read() or b"null")
            os.waitpid(pid, 0)
    print(json.dumps(answers))


if __name__ == "__main__":
    main()
