"""Experts through the whole of timing, on the CPU device at a smoke shape: what a GPU's verdict asks beyond a CPU's."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.proof


@pytest.mark.parametrize("slug", ["muon", "fused_linear_ce", "moe_grouped_topk", "ep_dispatch_fp8"])
def test_an_expert_passes_where_it_is_timed(slug: str) -> None:
    expert = (ROOT / "guidance" / slug / "expert.py").read_text(encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "tests.evaluator.judged_on_cpu"],
        input=json.dumps([{"candidate": expert, "baseline": None, "shipped": slug}]),
        capture_output=True, text=True, cwd=ROOT, timeout=400, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["status"] == "passed", answer
    assert "timing small" in answer["steps"]
