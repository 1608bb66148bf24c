"""Ceilings of the GPU that is here: measured in a minute, kept, and possible."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from d2k_agent.contract.ceilings import CEILING_FIELDS, FAST_ACCUMULATION, Ceilings, above_data_sheet
from d2k_agent.contract.data_sheets import data_sheet
from d2k_agent.contract.wire import from_data

pytestmark = pytest.mark.gpu

CLOCKS = 1.15
"""A GPU may clock higher than its data sheet assumes, by no more than this."""


def ceilings(cache: Path) -> tuple[dict[str, Any], float]:
    """What the command answers, and the seconds that measuring took, without those of waiting for the GPU."""
    running = subprocess.Popen(
        [sys.executable, "-m", "d2k_agent", "ceilings", "--measure", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "XDG_CACHE_HOME": str(cache)},
        cwd=Path(__file__).parents[2],
        text=True,
    )
    assert running.stdout is not None and running.stderr is not None
    said, began = "", None
    for line in running.stderr:
        said += line
        began = time.monotonic() if began is None and line.startswith("measuring") else began
    answer = running.stdout.read()
    assert running.wait() == 0 and began is not None, said
    return json.loads(answer), time.monotonic() - began


def test_the_gpu_here_is_measured_and_the_values_are_kept(tmp_path: Path) -> None:
    answer, seconds = ceilings(tmp_path)
    assert seconds < 60
    (gpu,) = answer["gpus"]
    measured = from_data(Ceilings, gpu["measured"])
    assert gpu["measured_here"] and json.loads(Path(answer["kept_in"]).read_text()) == gpu["measured"]
    for name in CEILING_FIELDS:
        found = getattr(measured, name)
        if name not in ("link_gb_s", "fp8_tflops"):
            assert found is not None, name
        if found is not None:
            assert found.provenance.basis == "measured" and found.provenance.date
    # 0.55 on an H200, where a single launch from the host takes ten times as long.
    assert measured.launch_us is not None and 0.3 < measured.launch_us.value < 3
    if measured.fp8_tflops is not None:
        assert measured.bf16_tflops is not None and FAST_ACCUMULATION in measured.fp8_tflops.provenance.source
        assert 1.5 < measured.fp8_tflops.value / measured.bf16_tflops.value < 2.2
    sheet = data_sheet(measured.device_name)
    if sheet is not None:
        assert sheet.copy_gb_s and measured.copy_gb_s and measured.copy_gb_s.value > 0.8 * sheet.copy_gb_s.value
        assert sheet.bf16_tflops and measured.bf16_tflops and measured.bf16_tflops.value > 0.6 * sheet.bf16_tflops.value
        if measured.link_gb_s is not None:
            assert sheet.link_gb_s and measured.link_gb_s.value > 0.7 * sheet.link_gb_s.value
        assert all(factor < CLOCKS for factor in above_data_sheet(measured, sheet).values())
