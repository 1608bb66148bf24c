"""The same confinement with a GPU: CUDA starts inside it, compiles, and shares memory with its supervisor."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.gpu
def test_a_confined_candidate_shares_tensors_with_its_supervisor() -> None:
    argv = [sys.executable, str(Path(__file__).with_name("cuda_probe.py"))]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["right"]
    assert {"landlock.files", "no_capabilities", "seccomp"} <= set(answer["measures"])
    assert all(answer["walls"].values()), answer["walls"]
