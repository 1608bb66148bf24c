"""What `make gpu-profile` prints of results that were measured before; measuring itself needs a GPU."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.gpu.pages import agrees, one_launch_a_kernel, page_of, page_says, without_ours
from benchmarks.gpu.profiles import Look, look_at, looks_of, main, report_lines, sources_key
from benchmarks.gpu.results import ResultsFile, machine_here
from d2k_agent.catalog import find_task
from d2k_agent.contract import Bottleneck, Diagnosis, Evidence, KernelProfile, Profile, source_sha256
from d2k_agent.contract.archive import build_archive
from d2k_agent.contract.wire import from_data, to_data
from d2k_agent.isolation import lease
from d2k_agent.launchers import ProcessLauncher
from tests.evaluator.profiling.fakes import GENERATOR, WORKLOAD, done_without_target, environment

ROOT = Path(__file__).parents[2]
HERE = "NVIDIA H200, driver 580.159.04, evaluator a"
HEAD = "==PROF== Connected to process 7\n[7] python3.12@127.0.0.1\n"
LAUNCH = """\
  {name} (32, 16, 1)x(256, 1, 1), Context 1, Stream 7, Device 0, CC 9.0
    Section: GPU Speed Of Light Throughput
    ----------------------- ----------- ------------
    DRAM Throughput                   %        21.33
    Duration                         us        {us}
    Compute (SM) Throughput           %        82.21
    ----------------------- ----------- ------------

    INF   {says}

    Section: Launch Statistics
    OPT   This kernel's grid looks at the Memory Workload Analysis section.
"""
COMPUTE = """This workload is utilizing greater than 80.0% of the available compute or memory performance of the device.
          Start by analyzing workloads in the Compute Workload
          Analysis section."""


def launch(name: str, us: float = 10.0, says: str = COMPUTE) -> str:
    """The part of a page on one launch."""
    return LAUNCH.format(name=name, us=us, says=says)


PAGE = HEAD + "".join(launch(name) * 40 for name in ("mm", "void at::fill<int>(int)"))
TENSOR = Diagnosis(Bottleneck.TENSOR, (Evidence("sm__pipe_tensor_cycles_active", 82.2, 60.0),))
PROFILE = Profile(
    "large",
    "ncu 2025.3.1",
    (KernelProfile("mm", 40, 400.0, 1.0, (32, 16, 1), (256, 1, 1), tensor_percent=82.2, diagnosis=TENSOR),),
    400.0,
    diagnosis=TENSOR,
)
LONG = HEAD + launch("mm") + "    ----- a word of advice, and one more\n" * 200


def test_one_launch_of_every_kernel_is_kept() -> None:
    kept = one_launch_a_kernel(PAGE)
    assert kept.startswith(HEAD)
    assert kept.count("mm (32") == kept.count("fill<int>(int) (32") == 1
    assert kept.count("DRAM Throughput") == 2


def test_the_launch_of_our_own_is_not_counted_for_the_page() -> None:
    assert without_ours(HEAD + launch("void at::fill<int>(int)") + launch("mm") * 2) == (HEAD + launch("mm") * 2)


@pytest.mark.parametrize(
    ("words", "says", "ours"),
    [
        (COMPUTE, "compute", {Bottleneck.TENSOR, Bottleneck.PIPE}),
        (
            "This workload is utilizing greater than 80%. Start by analyzing L1 in the Memory Workload Analysis.",
            "memory",
            {Bottleneck.DRAM, Bottleneck.L2, Bottleneck.SHARED},
        ),
        (
            "Memory is more heavily utilized than Compute: Look at the Memory Workload Analysis section.",
            "memory",
            {Bottleneck.DRAM, Bottleneck.L2, Bottleneck.SHARED},
        ),
        (
            "Compute and Memory are well-balanced: To reduce runtime, both must be reduced.",
            "compute or memory",
            set(Bottleneck) - {Bottleneck.LATENCY, Bottleneck.TAIL, Bottleneck.LAUNCH},
        ),
        (
            "Achieved compute throughput below 60.0% of peak typically indicate latency issues.",
            "latency",
            {Bottleneck.LATENCY, Bottleneck.TAIL, Bottleneck.LAUNCH},
        ),
        (
            "This kernel grid is too small to fill the available resources on this device.",
            "latency",
            {Bottleneck.LATENCY, Bottleneck.TAIL, Bottleneck.LAUNCH},
        ),
        ("Words of another year.", None, set()),
    ],
)
def test_the_profilers_own_rule_is_read_off_the_page(words: str, says: str | None, ours: set[Bottleneck]) -> None:
    longest = launch("mm", 1200.0, words)
    assert page_says(HEAD + launch("mm", 900.0, "Nothing.") + longest + launch("other", 2000.0), "mm") == says
    assert {kind for kind in Bottleneck if agrees(says, kind)} == ours
    assert page_says(HEAD + longest, "another") is None


def look(source: str, page: str | None = None, **changes: Any) -> Look:
    return Look("muon", source, "large", "NVIDIA H200", "GPU-0", replace(PROFILE, **changes), page)


def test_a_profile_that_agrees_with_the_page_within_the_aim_counts() -> None:
    memory = HEAD + launch("mm", says="Memory is more heavily utilized than Compute.") + "    ----- advice\n" * 900
    looks = [look("expert", LONG), look("baseline", memory), look("short", HEAD + launch("mm")), look("unseen")]
    lines = "\n".join(report_lines(looks)).splitlines()
    assert lines[0] == "NVIDIA H200"
    assert lines[2].split()[:8] == ["muon", "expert", "large", "400.0", *["tensor", "core"] * 2]
    assert lines[2].split()[8] == "compute"
    assert lines[-2] == "2 of 3: the profiler's own rule says the same of compute, memory or latency (longest kernel)"
    assert lines[-1].startswith("2 of 4 with at most 20% of the page's tokens")


WITHOUT_TOKENS = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("pydantic", "litellm", "tiktoken", "rich", "langgraph"):
            raise ModuleNotFoundError(f"{name} is not on a GPU machine", name=name)

sys.meta_path.insert(0, Absent())
from benchmarks.gpu.profiles import main
sys.exit(main(["--only-table", "--json", sys.argv[1]]))
"""
KEY = sources_key(find_task("muon"), "expert", find_task("muon").workloads[0].label)
"""Of a file from before keys named the machine."""


def test_the_table_is_printed_where_tokens_cannot_be_counted(tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    ResultsFile(file).add(KEY, look=to_data(look("expert", LONG)))
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TOKENS, str(file)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[2].split()[:4] == ["muon", "expert", "large", "400.0"] and lines[2].split()[-4:] == ["unknown"] * 4
    assert "1 of 1: the profiler's own rule says the same" in done.stdout
    assert "tokens are not counted here" in lines[-1]


def test_results_outlive_the_process_and_print_without_a_gpu(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "results.jsonl"
    ResultsFile(file).add(KEY, look=to_data(look("expert")))
    ResultsFile(file).add(KEY, look=to_data(look("expert", LONG)))
    assert main(["--json", str(file), "--only-table"]) == 0
    out = capsys.readouterr().out
    assert out.count("muon expert") == 1 and "1 of 1" in out
    assert main(["--json", str(tmp_path / "none.jsonl"), "--only-table"]) == 1
    assert main(["moe_grouped_topk", "--json", str(file), "--only-table"]) == 1
    assert "no look at the sources of these tasks" in capsys.readouterr().out


def test_the_table_has_the_sources_as_they_are_now_of_the_tasks_that_were_asked_for() -> None:
    muon, moe, results = find_task("muon"), find_task("moe_grouped_topk"), ResultsFile(None)
    label = muon.workloads[0].label
    earlier = f"expert {label} {source_sha256('an earlier text')}"
    for key, name in (
        (earlier, "edited since"),
        (f"{earlier}, {HERE}", "edited since"),
        (KEY, "of an earlier file"),
        (f"{sources_key(moe, 'expert', moe.workloads[0].label)}, {HERE}", "another task"),
        (f"{sources_key(muon, 'baseline', label)}, {HERE}", "here"),
    ):
        results.add(key, look=to_data(look(name)))
    assert [item.source for item in looks_of(results, [muon], None)] == ["here", "of an earlier file"]
    assert [item.source for item in looks_of(results, [muon], HERE)] == ["here"]
    assert [item.source for item in looks_of(results, [moe, muon], HERE)] == ["another task", "here"]


def test_of_several_machines_the_newest_look_counts_and_the_one_that_is_here(monkeypatch: pytest.MonkeyPatch) -> None:
    muon, results = find_task("muon"), ResultsFile(None)
    for hour, machine in enumerate((HERE, "NVIDIA H100, driver 1, evaluator b")):
        monkeypatch.setattr("time.gmtime", lambda hour=hour: time.struct_time((2026, 12, 1, hour, 0, 0, 1, 335, 0)))
        results.add(f"{KEY}, {machine}", look=to_data(look(machine)))
    assert [item.source for item in looks_of(results, [muon], None)] == ["NVIDIA H100, driver 1, evaluator b"]
    assert [item.source for item in looks_of(results, [muon], HERE)] == [HERE]


def test_a_machine_is_its_gpu_its_driver_and_the_evaluator(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    gpu = SimpleNamespace(name="NVIDIA H200", uuid="0")
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: gpu)
    monkeypatch.setattr("d2k_agent.evaluator.devices.nvml.Gpu.driver", lambda _: "580.159.04")
    archive = build_archive(ROOT / "d2k_agent")
    assert machine_here() == f"NVIDIA H200, driver 580.159.04, evaluator {hashlib.sha256(archive).hexdigest()}"


STAND_IN = """\
#!/bin/sh
case "$*" in
  *--import*details*) grep -q exported "$4" && echo the page; exit ;;
esac
while [ "$1" != --export ]; do shift; done
echo exported > "$2.ncu-rep"
{done}
"""


def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, done: str) -> None:
    """A PATH whose profiler exports a page where its target is `done`."""
    script = STAND_IN.replace("{done}", done)
    monkeypatch.setenv("PATH", environment(tmp_path, script)["PATH"])


def test_the_page_comes_from_one_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs(tmp_path, monkeypatch, done_without_target(tmp_path))
    assert page_of("def run(x):\n    return x\n", GENERATOR, WORKLOAD, "cpu") == "the page\n"


def test_a_profile_is_kept_where_its_page_fails_and_the_lease_is_held_for_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs(tmp_path, monkeypatch, "exit 3")
    muon, file = find_task("muon"), tmp_path / "results.jsonl"
    task = replace(muon, workloads=(replace(muon.workloads[0], label="large"),))
    key = f"{sources_key(task, 'expert', 'large')}, {HERE}"
    gpu = f"test-{os.getpid()}"
    ResultsFile(file).add(key, look=to_data(replace(look("expert"), gpu=gpu)))
    launcher, said = ProcessLauncher({}), list[str]()
    with lease.hold([gpu], said.append):
        waiting = threading.Thread(
            target=look_at, args=(launcher, ResultsFile(file), HERE, task, "expert", "large", said.append)
        )
        waiting.start()
        until = time.monotonic() + 30
        while not any("waiting for GPU" in line for line in said) and time.monotonic() < until:
            time.sleep(0.05)
        assert any("waiting for GPU" in line for line in said)
    waiting.join(60)
    kept = from_data(Look, ResultsFile(file).every()[0]["look"], "a result")
    assert kept.profile == PROFILE and kept.page is None and kept.no_page
