"""Acts that lead out of the meters' sight are seen in whatever way a candidate spells them, and only a candidate's."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from d2k_agent.contract import VerdictStatus
from d2k_agent.evaluator.foreign import broken_rule

PROGRAM = """
import importlib.util
import sys

import torch

from d2k_agent.evaluator.foreign import watch_acts

seen = watch_acts(sys.argv[1])
spec = importlib.util.spec_from_file_location("solution", sys.argv[1] + "/solution.py")
spec.loader.exec_module(importlib.util.module_from_spec(spec))
print(*seen)
"""
OUTSIDE = """
import threading


def start(function):
    thread = threading.Thread(target=function)
    thread.start()
    thread.join()
"""


def acts_of(source: str, folder: Path) -> list[str]:
    inside, outside = folder / "candidate", folder / "elsewhere"
    inside.mkdir()
    outside.mkdir()
    (inside / "solution.py").write_text(source)
    (outside / "elsewhere.py").write_text(OUTSIDE)
    path = f"{Path(__file__).resolve().parents[2]}{os.pathsep}{outside}"
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "PYTHONPATH": path}
    command = [sys.executable, "-c", PROGRAM, str(inside)]
    done = subprocess.run(command, check=True, env=environment, capture_output=True, text=True, timeout=60)
    return done.stdout.split()


@pytest.mark.parametrize(
    ("source", "check"),
    [
        ("import _thread; _thread.start_new_thread(int, ())", "runtime.workers"),
        ("from threading import Thread as T; T(target=int).start()", "runtime.workers"),
        ("from concurrent.futures import ThreadPoolExecutor as P; P(1).submit(int).result()", "runtime.workers"),
        ("import elsewhere; elsewhere.start(int)", "runtime.workers"),
        ("import os\nif not os.fork(): os._exit(0)\nos.wait()", "runtime.workers"),
        ("import subprocess; subprocess.run(['true'])", "runtime.workers"),
        ("exec('import os; os.system(\"true\")')", "runtime.workers"),
        ("import ctypes; ctypes.CDLL(None)", "runtime.native"),
        ("import ctypes; ctypes.string_at(id(1), 1)", "runtime.native"),
    ],
)
def test_an_act_of_the_candidate_is_seen(source: str, check: str, tmp_path: Path) -> None:
    seen = acts_of(source, tmp_path)
    assert seen
    fault = broken_rule(seen[0])
    assert (fault.status, fault.violations[0].check) == (VerdictStatus.RULE_VIOLATION, check)
    assert seen[0] in fault.message


def test_what_torch_starts_for_the_candidate_is_not_the_candidates(tmp_path: Path) -> None:
    # It starts a process, by way of the standard library.
    assert acts_of("from torch.utils import cpp_extension; cpp_extension.is_ninja_available()", tmp_path) == []


def test_an_honest_import_is_no_act(tmp_path: Path) -> None:
    source = "import functools, math, time, dataclasses, torch\nG = torch.empty(4)\nG.data_ptr(); time.sleep(0)"
    assert acts_of(source, tmp_path) == []
