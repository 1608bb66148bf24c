"""What `make gpu-profile` prints of results that were measured before; measuring itself needs a GPU."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.gpu.profiles import Look, Results, main, one_launch_a_kernel, page_of, report_lines, without_ours
from d2k_agent.contract import Bottleneck, Diagnosis, Evidence, KernelProfile, Profile
from tests.evaluator.profiling.fakes import GENERATOR, WORKLOAD, done_without_target, environment, table

HEAD = "==PROF== Connected to process 7\n[7] python3.12@127.0.0.1\n"
LAUNCH = """\
  {name} (32, 16, 1)x(256, 1, 1), Context 1, Stream 7, Device 0, CC 9.0
    Section: GPU Speed Of Light Throughput
    ----------------------- ----------- ------------
    DRAM Throughput                   %        21.33
    Compute (SM) Throughput           %        82.21
"""
PAGE = HEAD + "".join(LAUNCH.format(name=name) * 40 for name in ("mm", "void at::fill<int>(int)"))
TENSOR = Diagnosis(Bottleneck.TENSOR, (Evidence("sm__pipe_tensor_cycles_active", 82.2, 60.0),))
PROFILE = Profile(
    "large",
    "ncu 2025.3.1",
    (KernelProfile("mm", 40, 400.0, 1.0, (32, 16, 1), (256, 1, 1), tensor_percent=82.2, diagnosis=TENSOR),),
    400.0,
    diagnosis=TENSOR,
)
LONG = HEAD + LAUNCH.format(name="mm") + "    ----- a word of advice, and one more\n" * 200


def test_one_launch_of_every_kernel_is_kept() -> None:
    kept = one_launch_a_kernel(PAGE)
    assert kept.startswith(HEAD)
    assert kept.count("mm (32") == kept.count("fill<int>(int) (32") == 1
    assert kept.count("DRAM Throughput") == 2


def test_the_launch_of_our_own_is_not_counted_for_the_page() -> None:
    assert without_ours(HEAD + LAUNCH.format(name="void at::fill<int>(int)") + LAUNCH.format(name="mm") * 2) == (
        HEAD + LAUNCH.format(name="mm") * 2
    )


def test_a_profile_within_the_aim_at_the_same_bottleneck_counts() -> None:
    looks = [
        Look("muon", "expert", "large", "NVIDIA H200", PROFILE, LONG, "tensor core"),
        Look("muon", "baseline", "large", "NVIDIA H200", PROFILE, LONG, "DRAM"),
        Look("muon", "short", "large", "NVIDIA H200", PROFILE, HEAD + LAUNCH.format(name="mm"), "tensor core"),
    ]
    lines = "\n".join(report_lines(looks)).splitlines()
    assert lines[0] == "NVIDIA H200"
    assert lines[2].split()[:7] == ["muon", "expert", "large", "400.0", "tensor", "core", "tensor"]
    assert lines[-1].startswith("1 of 3 at the same bottleneck with at most 20% of the page's tokens")


def test_results_outlive_the_process_and_print_without_a_gpu(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "results.jsonl"
    results = Results(file)
    results.add("a key", Look("muon", "expert", "large", "NVIDIA H200", PROFILE, LONG, "tensor core"))
    again = Results(file)
    assert again.known("a key") and not again.known("another")
    assert again.looks() == results.looks()
    assert json.loads(file.read_text())["look"]["profile"]["workload"] == "large"
    assert main(["--json", str(file), "--only-table"]) == 0
    assert "muon expert" in capsys.readouterr().out
    assert main(["--json", str(tmp_path / "none.jsonl"), "--only-table"]) == 1


STAND_IN = """\
#!/bin/sh
case "$*" in
  *--import*details*) grep -q exported "$4" && echo the page; exit ;;
  *--import*raw*) cat {raw}; exit ;;
esac
while [ "$1" != --export ]; do shift; done
echo exported > "$2.ncu-rep"
{done}
"""


def test_the_page_and_the_counters_behind_it_come_from_one_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = tmp_path / "raw"
    raw.write_text(table("d2k_run"))
    monkeypatch.setenv(
        "PATH", environment(tmp_path, STAND_IN.format(raw=raw, done=done_without_target(tmp_path)))["PATH"]
    )
    page, bottleneck = page_of("def run(x):\n    return x\n", GENERATOR, WORKLOAD, "cpu")
    assert (page, bottleneck) == ("the page\n", "tensor core")
