"""`tasks check`: a correct task passes every check, and each fault is found by the check that is named for it."""

from __future__ import annotations

import copy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from d2k_agent.catalog import check_task, find_task, list_tasks
from tests.catalog.tasks_on_disk import CONFIG, FILES, GUIDANCE, HIDDEN, write_task

SHIPPED = [task.slug for task in list_tasks()]


def failed(folder: Path) -> dict[str, str]:
    return {finding.check: finding.message for finding in check_task(find_task(folder)) if not finding.passed}


def changed(data: dict[str, Any], *path: Any, value: Any) -> dict[str, Any]:
    """A copy of nested data with one place replaced."""
    result = copy.deepcopy(data)
    place: Any = result
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return result


def test_a_task_without_guidance_is_told_to_prove_nothing(tmp_path: Path) -> None:
    names = (f"guidance/{name}" for name in ("guidance.json", "expert.py", "baseline.py", "wrong.toml"))
    found = failed(write_task(tmp_path, files=dict.fromkeys(names)))
    assert set(found) == {"sources"} and "there is no guidance folder" in found["sources"]


@pytest.mark.parametrize("slug", SHIPPED)
def test_every_shipped_task_passes(slug: str) -> None:
    findings = check_task(find_task(slug))
    assert len(findings) >= 8
    assert [finding for finding in findings if not finding.passed] == []


def test_a_correct_task_of_ones_own_passes(tmp_path: Path) -> None:
    assert failed(write_task(tmp_path)) == {}


@pytest.mark.parametrize(
    ("files", "check", "said"),
    [
        ({"guidance/baseline.py": None}, "sources", "baseline.py is missing: speedups are over it"),
        ({"guidance/wrong.toml": None}, "sources", "wrong.toml is missing: it shows that the gates tell right"),
        ({"guidance/expert.py": "def run(x:\n"}, "sources", "expert.py, line 1: "),
        ({"guidance/expert.py": "def go(x):\n    return x\n"}, "sources", "expert.py defines no run(...)"),
        ({"solution.py": " \n"}, "files", "solution.py is empty"),
        ({"hidden/check.py": None}, "files", "hidden/check.py is missing"),
        ({"reference.py": "def run(x:\n"}, "python", "reference.py, line 1"),
        ({"reference.py": "def go(x):\n    return x\n"}, "python", "reference.py defines no run"),
        ({"get_inputs.py": "x = 1\n"}, "python", "get_inputs.py defines no get_inputs"),
        ({"solution.py": "def run(x, y):\n    pass\n"}, "python", "take different arguments"),
        ({"hidden/check.py": "def memory_cap_bytes(w):\n    return 0\n"}, "hidden", "check.py defines no negative"),
        ({"hidden/check.py": "def negative(i, g):\n    return i\n"}, "hidden", "defines no memory_cap_bytes"),
        ({"hidden/rules.toml": "[torch\n"}, "hidden", "rules.toml"),
        ({"hidden/rules.toml": "[numpy]\nallow = []\n"}, "hidden", "rules.toml: numpy: unknown key"),
        ({"hidden/rules.toml": "[torch]\nalow = []\n"}, "hidden", "rules.toml: torch.alow: unknown key"),
        ({"hidden/rules.toml": "[torch]\nallow = 3\n"}, "hidden", "rules.toml: torch.allow: array expected"),
        ({"hidden/workloads.json": '{"category": "x"}'}, "labels", "correct the check 'workloads' first"),
        ({"task_description.md": "Chain text of the second\n level, about registers."}, "secrecy", "sentence of L2"),
        ({"solution.py": FILES["solution.py"] + "# def secret_doubling_kernel(pointer):\n"}, "secrecy", "expert.py"),
    ],
)  # fmt: skip
def test_a_fault_in_a_file_is_found(files: dict[str, str | None], check: str, said: str, tmp_path: Path) -> None:
    write_task(tmp_path, files=files)
    assert said in failed(tmp_path)[check]


@pytest.mark.parametrize(
    ("part", "path", "value", "check", "said"),
    [
        ("config", ("benchmark_id",), 7, "config", "benchmark_id: string expected, not int"),
        ("config", ("workloads",), [{"label": "n8"}, {"label": "n8"}], "labels", "label n8 is used 2 times"),
        ("config", ("workloads", 0, "label"), "negative_n4", "labels", "negative_n4 is used 2 times"),
        ("hidden", ("repeat_calls",), True, "workloads", "repeat_calls: integer expected, not bool"),
        ("hidden", ("variations", 0, "devices"), ["tpu"], "workloads", "variations[0].devices[0]: 'tpu' is not one of"),
        ("hidden", ("mutated_inputs",), [1], "workloads", "mutated_inputs[0]: object expected, not int"),
        ("hidden", ("gates", 0, "gate"), "rel_nrom", "workloads", "gates[0].gate: 'rel_nrom' is not one of"),
        ("hidden", ("smoke",), [], "workloads", "smoke: at least 1 items expected"),
        ("hidden", ("surprise",), 1, "workloads", "surprise: unknown key"),
        ("guidance", ("level_2_dataflow_design", "overview"), "short", "guidance", "at least 80 characters"),
        ("guidance", ("level_2_dataflow_design", "edges", 0, "to"), "nowhere", "guidance", "'nowhere', which is"),
        ("guidance", ("level_3_low_level_optimization_tricks", 0, "supports"), ["x"], "guidance", "supports 'x'"),
        (
            "guidance",
            ("level_1_high_level_algorithmic_insights", 0, "constraints"),
            "Chain text of the third level, about lanes.",
            "secrecy",
            "staged with L1: guidance.json has a sentence of L3",
        ),
    ],
)  # fmt: skip
def test_a_fault_in_the_data_is_found(
    part: str, path: tuple[Any, ...], value: Any, check: str, said: str, tmp_path: Path
) -> None:
    parts = {"config": CONFIG, "hidden": HIDDEN, "guidance": GUIDANCE}
    parts[part] = changed(parts[part], *path, value=value)
    write_task(tmp_path, **parts)
    assert said in failed(tmp_path)[check]


def test_nothing_of_a_task_is_executed(tmp_path: Path) -> None:
    code = "open('was_here', 'w')\n"
    files = {name: code + FILES[name] for name in ("get_inputs.py", "reference.py", "solution.py", "hidden/check.py")}
    write_task(tmp_path / "task", files=files)
    script = (
        "import sys; from d2k_agent.catalog import *; check_task(find_task(sys.argv[1])); print('torch' in sys.modules)"
    )
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "task")],
        cwd=tmp_path, env={"PYTHONPATH": str(root)}, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == "False"
    assert not (tmp_path / "was_here").exists()


COUNTS = {
    f"{algorithm}_{what}": f"def {algorithm}_{what}(workload):\n    return {value}\n"
    for algorithm in ("reference", "best")
    for what, value in (("flops", '{"fp16": 1e12}'), ("bytes", "1e9"))
}
LATENCIES = """{
    "workloads": {"n8": {"reference_ms": 9, "baseline_ms": 5, "expert_ms": EXPERT}},
    "provenance": {"device": "NVIDIA H200"}
}"""


@pytest.mark.parametrize(
    ("changes", "expert_ms", "said"),
    [
        ({}, 1.02, None),
        ({}, 1.00, r"the expert took 1 ms on NVIDIA H200, below the data sheet's floor of 1.011 ms"),
        ({"best_flops": ""}, 2.0, r"task double: .*sol.py, line 1: defines no best_flops(workload)"),
        ({"best_bytes": "def best_bytes(workload):\n    return 2e9\n"}, 2.0, None),
        (
            {
                "best_bytes": "def best_bytes(workload):\n    return 2e9\n",
                "best_flops": 'def best_flops(workload):\n    return {"fp8": 1.1e12}\n',
            },
            2.0,
            "on n8 the best known algorithm has more operations and bytes than the reference",
        ),
        (
            {"best_bytes": "def best_bytes(workload):\n    return 9.6e9\n"},
            2.0,
            r"best algorithm's floor of 1.997 ms is above the reference's of 1.011 ms, by .* sheet of NVIDIA H200",
        ),
    ],
)
def test_counts_are_checked(tmp_path: Path, changes: dict[str, str], expert_ms: float, said: str | None) -> None:
    sol = "\n\n".join((COUNTS | changes).values())
    latencies = LATENCIES.replace("EXPERT", str(expert_ms))
    folder = write_task(tmp_path / "double", files={"hidden/sol.py": sol, "hidden/baselines.json": latencies})
    found = failed(folder)
    assert set(found) == (set() if said is None else {"speed of light"})
    if said is not None:
        assert all(part in found["speed of light"] for part in said.split(".*"))


def test_where_nothing_was_measured_the_best_algorithm_may_need_more_on_one_gpu_and_not_on_all(tmp_path: Path) -> None:
    """2.9 GB take longer than 0.8 Tflop on an H100 and on a B200; on an H200, whose memory is faster, 4.2 GB do."""
    reference = {"reference_flops": 'def reference_flops(workload):\n    return {"fp16": 0.8e12}\n'}
    cheap = {"best_flops": "def best_flops(workload):\n    return {}\n"}
    for gigabytes, above in ((2.9, False), (4.2, True)):
        more = {"best_bytes": f"def best_bytes(workload):\n    return {gigabytes}e9\n"}
        sol = "\n\n".join((COUNTS | reference | cheap | more).values())
        folder = write_task(tmp_path / f"{above}", files={"hidden/sol.py": sol})
        assert ("speed of light" in failed(folder)) is above
