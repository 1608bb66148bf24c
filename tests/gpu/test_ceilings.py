"""Ceilings of the GPU that is here: measured in a minute, kept, and possible."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from d2k_agent.contract.ceilings import CEILING_FIELDS, Ceilings, above_data_sheet
from d2k_agent.contract.data_sheets import data_sheet
from d2k_agent.contract.wire import from_data

pytestmark = pytest.mark.gpu

CLOCKS = 1.15
"""A GPU may clock higher than its data sheet assumes, by no more than this."""


def test_the_gpu_here_is_measured_and_the_values_are_kept(tmp_path: Path) -> None:
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "d2k_agent", "ceilings", "--measure", "--json"],
        stdout=subprocess.PIPE,
        check=True,
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path)},
        cwd=Path(__file__).parents[2],
    )
    assert time.monotonic() - began < 60
    answer = json.loads(done.stdout)
    (gpu,) = answer["gpus"]
    measured = from_data(Ceilings, gpu["measured"])
    assert gpu["measured_here"] and json.loads(Path(answer["kept_in"]).read_text()) == gpu["measured"]
    for name in CEILING_FIELDS:
        found = getattr(measured, name)
        if name not in ("link_gb_s", "fp8_tflops"):
            assert found is not None, name
        if found is not None:
            assert found.provenance.basis == "measured" and found.provenance.driver and found.provenance.date
    assert measured.launch_us is not None and 0.3 < measured.launch_us.value < 20
    sheet = data_sheet(measured.device_name)
    if sheet is not None:
        assert sheet.copy_gb_s and measured.copy_gb_s and measured.copy_gb_s.value > 0.7 * sheet.copy_gb_s.value
        assert sheet.bf16_tflops and measured.bf16_tflops and measured.bf16_tflops.value > 0.5 * sheet.bf16_tflops.value
        assert all(factor < CLOCKS for factor in above_data_sheet(measured, sheet).values())
