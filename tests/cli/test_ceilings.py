"""ceilings: what is printed where there is no GPU."""

from __future__ import annotations

import json

import pytest

from d2k_agent.cli.entry import main
from d2k_agent.isolation import gpu_devices

Printed = pytest.CaptureFixture[str]


def test_it_prints_every_gpu_that_is_known(capsys: Printed) -> None:
    assert main(["ceilings"]) == 0
    text = capsys.readouterr().out
    assert all(f"NVIDIA {name}\n" in text for name in ("H100 80GB HBM3", "H200", "B200"))
    assert "dense products without sparsity" in text
    assert "L2 cache, MiB by the driver 60 - 50 -".split() in [line.split() for line in text.splitlines()]
    assert "Nothing is known of b300: floors and models there are unknown until measured." in text
    assert "What is measured here is kept in " in text
    assert main(["ceilings", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["kept_in"] is None and len(found["gpus"]) >= 3 and found["unknown_targets"] == ["b300"]


@pytest.mark.skipif(bool(gpu_devices()), reason="there is a GPU to measure")
def test_without_a_gpu_measuring_is_refused_in_a_sentence(capsys: Printed) -> None:
    assert main(["ceilings", "--measure", "--gpu", "0"]) == 2
    assert capsys.readouterr().err.strip().startswith("d2k-agent: there is no NVIDIA GPU here to measure: ")


def test_a_gpu_is_named_for_a_measurement_only(capsys: Printed) -> None:
    assert main(["ceilings", "--gpu", "0"]) == 2
    assert "--gpu says which GPU is measured" in capsys.readouterr().err
