"""ceilings: what is printed where there is no GPU."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from d2k_agent.cli.entry import main
from d2k_agent.contract.ceilings import Ceiling, Ceilings, Provenance
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


@pytest.mark.parametrize("words", [(), ("--json",)])
def test_what_was_measured_is_printed_though_it_cannot_be_kept(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Printed
) -> None:
    """A status as `score.py` has it, which prints its score before it writes it down."""
    provenance = Provenance("measured", "copies of 4.3 GB", date="2026-11-30")
    found = Ceilings("NVIDIA H200", copy_gb_s=Ceiling(4444.0, provenance))
    monkeypatch.setattr("d2k_agent.app.ceilings.measure", lambda *_: found)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert main(["ceilings", "--measure", *words]) == 0
    out, err = capsys.readouterr()
    assert "4444" in out and str(tmp_path / "d2k-agent") in out and not err
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert main(["ceilings", "--measure", *words]) == 3
    out, err = capsys.readouterr()
    assert "4444" in out and "Kept" not in out
    assert not words or json.loads(out)["kept_in"] is None
    assert err.startswith(
        f"d2k-agent: not kept: {tmp_path}/file/d2k-agent/ceilings cannot be written (Not a directory)"
    )


def test_a_gpu_is_named_for_a_measurement_only(capsys: Printed) -> None:
    assert main(["ceilings", "--gpu", "0"]) == 2
    assert "--gpu says which GPU is measured" in capsys.readouterr().err
