"""The GPU targets of the Makefile, with a Python that says it sees two GPUs: what each starts."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
STAND_IN = """\
#!/bin/sh
case "$*" in
    *is_available*) exit 0 ;;
    *device_count*) echo 0,1 ;;
    *get_device_name*) cat > /dev/null; [ -e "${0%/*}/kept" ]; exit ;;
    "-m d2k_agent ceilings --json") exit 0 ;;
    *find_spec*) shift 2; [ "$1" = 0,1 ] && echo "--numprocesses 2 --dist worksteal" ;;
    *) echo "RAN [$CUDA_VISIBLE_DEVICES] $*" ;;
esac
exit 0
"""


def started(folder: Path, *words: str, **variables: str) -> list[str]:
    """What the targets of `words` start, in order, with the GPUs that each sees."""
    python = folder / "python"
    python.write_text(STAND_IN)
    python.chmod(0o755)
    command = ["make", "--silent", f"GPU_PYTHON={python}", *words]
    environment = {"PATH": "/usr/bin:/bin", **variables}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    return [line.removeprefix("RAN ") for line in done.stdout.splitlines() if line.startswith("RAN ")]


@pytest.mark.parametrize(
    ("variables", "seen", "workers"),
    [({}, "0,1", "--numprocesses 2 --dist worksteal"), ({"CUDA_VISIBLE_DEVICES": "1"}, "1", "")],
)
def test_cheats_are_judged_on_every_visible_gpu_and_each_test_is_named(
    tmp_path: Path, variables: dict[str, str], seen: str, workers: str
) -> None:
    (line,) = started(tmp_path, "gpu-cheats", "K=-k 'H1 or H2'", **variables)
    assert line.startswith(f"[{seen}] -m pytest") and line.endswith("tests/evaluator/test_cheats_judged.py")
    words = line.split()
    assert "-v" in words and "-k" in words
    assert (workers in line) and ("--numprocesses" in line) == bool(workers)


def test_one_command_shows_ceilings_headroom_modelled_latencies_and_profiles_of_every_task(tmp_path: Path) -> None:
    shown = [line.partition("] ")[2] for line in started(tmp_path, "gpu-profile")]
    assert shown == [
        "-m d2k_agent ceilings --measure",
        "-m d2k_agent tasks list",
        "benchmarks/modelled.py",
        "benchmarks/gpu/profiles.py --json build/gpu-profiles.jsonl",
    ]
    (tmp_path / "kept").write_text("")
    again = started(tmp_path, "gpu-profile", "TASKS=muon", "FULL=1")
    assert again[0] == "[] -m d2k_agent ceilings", "what is kept of this GPU is printed, and not measured again"
    assert again[-1].endswith("profiles.py muon --json build/gpu-profiles.jsonl --full")


def test_latencies_are_of_muon_where_no_task_is_named(tmp_path: Path) -> None:
    (line,) = started(tmp_path, "gpu-tasks", "WRITE=1", "REPEATS=0")
    assert line.endswith("tasks.py muon --json build/gpu-muon.jsonl --repeats 0 --write")
    (line,) = started(tmp_path, "gpu-tasks", "TASKS=ep_dispatch_fp8", "RANKS=4")
    assert line.endswith("tasks.py ep_dispatch_fp8 --json build/gpu-ep_dispatch_fp8.jsonl --repeats 10 --ranks 4")
