"""Ceilings as a machine knows them: kept, read again, refused when damaged; and what is said where there is no GPU."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import sys
from pathlib import Path

import pytest

from d2k_agent.app.ceilings import KnownCeilings, answer_of, known_gpus
from d2k_agent.app.reporting import report_runs
from d2k_agent.app.surroundings import Surroundings
from d2k_agent.catalog import samples_dir
from d2k_agent.config import Settings
from d2k_agent.contract.ceilings import Ceiling, Ceilings, Provenance
from d2k_agent.contract.data_sheets import MEASURED
from d2k_agent.contract.wire import to_data
from d2k_agent.errors import D2KError, MachineError, UsageError
from d2k_agent.reports.ceilings_text import KnownGpu, ceilings_data, ceilings_text
from d2k_agent.reports.curve_data import curve_data

HERE = Provenance("measured", "copies of 4.3 GB", machine="Linux", driver="1.2", torch="2.11", date="2026-11-30")
MINE = Ceilings("NVIDIA H200", copy_gb_s=Ceiling(4444.0, HERE), launch_us=Ceiling(1.1, HERE))


@pytest.fixture
def known(tmp_path: Path) -> KnownCeilings:
    return KnownCeilings(Surroundings(tmp_path, {"XDG_CACHE_HOME": str(tmp_path / "cache")}, tmp_path, "python3"))


def test_what_was_measured_here_is_kept_and_goes_first(known: KnownCeilings, tmp_path: Path) -> None:
    assert known.measured("NVIDIA H200") is None
    path = known.keep(MINE)
    assert path == tmp_path / "cache" / "d2k-agent" / "ceilings" / "nvidia-h200.json"
    assert list(path.parent.iterdir()) == [path]
    assert known.measured("NVIDIA H200") == MINE
    best = known.best("NVIDIA H200")
    assert best is not None and best.copy_gb_s == MINE.copy_gb_s and best.fp16_tflops == MEASURED[0].fp16_tflops
    assert known.best("NVIDIA B200") is not None and known.best("GeForce") is None


def test_what_cannot_be_kept_leaves_no_part_of_it(known: KnownCeilings) -> None:
    path = known.keep(MINE)
    path.unlink()
    path.mkdir()
    with pytest.raises(IsADirectoryError):
        known.keep(MINE)
    assert list(path.parent.iterdir()) == [path]


def test_without_the_variable_it_is_below_home(tmp_path: Path) -> None:
    around = Surroundings(tmp_path, {"HOME": str(tmp_path)}, tmp_path, "python3")
    assert KnownCeilings(around).path("NVIDIA H200").is_relative_to(tmp_path / ".cache")


@pytest.mark.parametrize("text", ["", "[]", '{"device_name": 3}', '{"device_name": "NVIDIA H200", "speed": 1}'])
def test_a_damaged_file_is_named(known: KnownCeilings, text: str) -> None:
    known.keep(MINE).write_text(text)
    with pytest.raises(UsageError, match=r"nvidia-h200\.json holds no ceilings .*remove it, or measure again"):
        known.best("NVIDIA H200")


def test_a_gpu_without_data_sheet_is_known_once_it_was_measured(known: KnownCeilings) -> None:
    known.keep(dataclasses.replace(MINE, device_name="GeForce"))
    *_, gpu = known_gpus(known)
    assert gpu.name == "GeForce" and gpu.measured_here and gpu.data_sheet is None
    assert "unknown" in ceilings_text([gpu])


def test_measured_values_stand_beside_the_data_sheet_each_with_its_source() -> None:
    sheet = Ceilings("NVIDIA H200", copy_gb_s=Ceiling(4000.0, Provenance("data sheet", "a page")))
    text = ceilings_text([KnownGpu("NVIDIA H200", MINE, measured_here=True, data_sheet=sheet)])
    (row,) = [line.split() for line in text.splitlines() if line.startswith("copy, GB/s")]
    assert row[-4:] == ["4444", "-", "4000", "111%"]
    assert "Measured copy is 1.11 times the data sheet" in text
    assert "copy, launch: copies of 4.3 GB, 2026-11-30, driver 1.2, torch 2.11" in text
    assert "copy: a page" in text


def test_scripts_get_all_of_it(known: KnownCeilings) -> None:
    known.keep(MINE)
    gpus = {gpu["device_name"]: gpu for gpu in ceilings_data(known_gpus(known))}
    assert gpus["NVIDIA H200"]["measured_here"] is True
    assert gpus["NVIDIA H200"]["measured"]["copy_gb_s"]["provenance"]["date"] == "2026-11-30"
    assert gpus["NVIDIA B200"]["measured"] is None
    assert gpus["NVIDIA B200"]["data_sheet"]["fp8_tflops"]["value"] == 4500


def test_a_report_tells_how_far_a_runs_candidate_was_above_the_floor(tmp_path: Path) -> None:
    around = Surroundings(tmp_path, {"HOME": str(tmp_path)}, tmp_path, "python3")
    (run,) = report_runs(around, [str(samples_dir() / "muon")], Settings(), lambda _: None, traces=False).runs
    note, *whys = [note for note in run.notes if "floor" in note]
    told = r"its candidate's headroom over the modelled floor \(measured ceilings\): 1\.\d+ on .*, 1\.\d+ on .*"
    assert re.fullmatch(told, note)
    below = "the kernel is below the reference's floor: it"
    sustained, less = (
        "is faster than what was sustained when the ceilings were measured",
        "does less than the reference",
    )
    assert [why.partition(": ")[2] for why in whys] == [f"{below} {sustained}", f"{below} {less}"]
    rows = curve_data([run], (), {}, None)["runs"][0]["headroom"]
    assert [row["workload"] for row in rows] == list(run.record.workloads)
    assert all(row["headroom"] == pytest.approx(row["measured_ms"] / row["floor_ms"]) for row in rows)
    assert all(row["sol_score"] is None and any(row["no_score"] in why for why in whys) for row in rows)


def test_what_the_measuring_program_prints_last_is_its_answer() -> None:
    found = answer_of([sys.executable, "-c", f"print('noise'); print({json.dumps(to_data(MINE))!r})"], os.environ)
    assert found == MINE


NO_OBJECTS = ("5", "null", "true", '"problem"', '["problem"]', "[]", "{}")


@pytest.mark.parametrize(
    ("program", "error", "told"),
    [
        ('print(\'{"problem": "no GPU to see"}\')', UsageError, "no GPU to see"),
        ("raise SystemExit(3)", MachineError, "measuring ended early"),
        *((f"print({answer!r})", MachineError, "measuring ended early") for answer in NO_OBJECTS),
        ("print('{\"device_name\": 3}')", MachineError, "measuring ended early"),
    ],
)
def test_what_came_of_nothing_is_a_sentence(program: str, error: type[D2KError], told: str) -> None:
    with pytest.raises(error, match=told):
        answer_of([sys.executable, "-c", program], os.environ)
