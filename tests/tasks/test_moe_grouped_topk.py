"""Expert and baseline of moe_grouped_topk at shapes that no workload has, programs in both orders."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(("name", "order"), [("expert", "first"), ("expert", "last"), ("baseline", "last")])
def test_it_computes_what_the_reference_does(name: str, order: str) -> None:
    source = ROOT / "guidance" / "moe_grouped_topk" / f"{name}.py"
    done = subprocess.run(
        [sys.executable, "-m", "tests.tasks.moe_grouped_topk_probe", str(source), order],
        env=os.environ | {"TRITON_INTERPRET": "1"},
        capture_output=True, text=True, cwd=ROOT, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout)
    assert len(results) >= 9
    assert {shape: found for shape, found in results.items() if not all(found.values())} == {}
