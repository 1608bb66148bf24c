"""What a verdict says of honest, wrong and hostile candidates, through the real processes of the evaluator."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from d2k_agent.app.evaluation import NO_SOURCE
from d2k_agent.catalog import find_task
from d2k_agent.contract import JobKind, Limits, SanitizerCheck, Verdict, VerdictStatus
from d2k_agent.errors import UsageError
from d2k_agent.launchers import ProcessLauncher
from tests.evaluator.scaling import HONEST, KERNEL, job, task


@pytest.fixture(scope="module")
def launcher() -> Iterator[ProcessLauncher]:
    # The canary plays a key that an operator left in the evaluator's environment.
    launcher = ProcessLauncher({"PATH": os.environ["PATH"], "HOME": "/tmp", "CANARY": "CANARY-EVALUATOR"})
    yield launcher
    launcher.close()


def failed_gates(verdict: Verdict) -> set[str]:
    return {check.gate for result in verdict.workloads for check in result.checks if not check.passed}


def test_an_honest_kernel_is_correct_and_untimed(launcher: ProcessLauncher) -> None:
    asked = job(HONEST)
    verdict = launcher.launch(asked)
    assert verdict.status is VerdictStatus.UNTIMED, verdict.message
    assert {result.label: result.status for result in verdict.workloads} == {
        "large": VerdictStatus.UNTIMED,
        "smoke_n1000": VerdictStatus.UNTIMED,
        "hidden.zeros": VerdictStatus.UNTIMED,
    }
    assert not verdict.eligible
    assert verdict.compile_report is not None
    assert [kernel.name for kernel in verdict.compile_report.kernels] == ["_scale"]
    assert verdict.peak_memory_bytes == 4000
    assert verdict.seed_commitment == hashlib.sha256(asked.seed.encode()).hexdigest()
    assert "landlock" in verdict.environment.isolation


def test_a_text_that_does_not_parse_tells_the_circumstances_and_costs_nothing(launcher: ProcessLauncher) -> None:
    verdict = launcher.launch(job(NO_SOURCE))
    assert verdict.status is VerdictStatus.COMPILE_ERROR and set(verdict.seconds) == {"static"}
    assert (verdict.environment.device, verdict.environment.isolation) == ("cpu", None)


def test_a_latency_is_modelled_in_a_confined_process_and_is_no_measurement(launcher: ProcessLauncher) -> None:
    verdict = launcher.launch(job(HONEST, kind=JobKind.MODEL, target="h200"))
    assert verdict.status is VerdictStatus.UNTIMED and not verdict.workloads and not verdict.eligible
    assert verdict.modelled is not None and "landlock" in verdict.environment.isolation
    (workload,) = verdict.modelled.workloads
    assert (
        workload.label == "large" and workload.launches[0].loaded_bytes == workload.launches[0].stored_bytes == 4 << 20
    )
    broken = launcher.launch(job("def run(x, factor):\n    return x * factor\n", kind=JobKind.MODEL))
    assert broken.status is VerdictStatus.RULE_VIOLATION and broken.modelled is None
    crash = "def run(x, factor):\n    raise SystemExit(7)\n"
    ended = launcher.launch(job(KERNEL + crash, kind=JobKind.MODEL, target="h200", static_rules=False))
    assert ended.modelled is not None and "SystemExit" in str(ended.modelled.workloads[0].why_not)


def test_the_tasks_own_code_may_compute_with_pytorch(launcher: ProcessLauncher) -> None:
    asked = job(task().public["reference.py"], trusted=True)
    verdict = launcher.launch(asked)
    assert verdict.status is VerdictStatus.UNTIMED, verdict.message
    wrong = launcher.launch(job("def run(x, factor):\n    return x * 2\n", trusted=True))
    assert wrong.status is VerdictStatus.INCORRECT


def test_memory_at_the_registered_shape_is_counted_where_nothing_runs_at_it(launcher: ProcessLauncher) -> None:
    hog = "def run(x, factor):\n    r = torch.empty(x.numel() // ROOM, device=x.device)\n    return scaled(x, factor)\n"
    verdict = launcher.launch(job(KERNEL + hog.replace("ROOM", "2")))
    assert verdict.status is VerdictStatus.INCORRECT, "two MiB more for 2**20 elements, the task allows one"
    assert verdict.message.startswith("large: 6291456 bytes of tensors were alive at once, the task allows 5242880")
    assert launcher.launch(job(KERNEL + hog.replace("ROOM", "8"))).status is VerdictStatus.UNTIMED


def test_smoke_workloads_alone_are_said_to_be_that(launcher: ProcessLauncher) -> None:
    verdict = launcher.launch(job(HONEST, workloads=("smoke_n1000",)))
    assert verdict.message.startswith("correct on the smoke workloads asked for, nothing was compiled")


WRONG = {
    "uninitialised": ("def run(x, factor):\n    scaled(x, factor)\n    return torch.empty_like(x)\n", "finite"),
    "cached by address": (
        (
            "seen = {}\n\n\ndef run(x, factor):\n    if x.shape not in seen:\n"
            "        seen[x.shape] = scaled(x, factor)\n"
            "    return seen[x.shape]\n"
        ),
        "finite",
    ),
    "honest eight times": (
        (
            "kept = []\n\n\ndef run(x, factor):\n    if len(kept) < 8:\n        kept.append(scaled(x, factor))\n"
            "        return kept[-1]\n    y = torch.empty_like(x)\n    y.copy_(x)\n    return y\n"
        ),
        "rel_norm",
    ),
    "depends on the number of the call": (
        (
            "calls = []\n\n\ndef run(x, factor):\n    calls.append(0)\n"
            "    return scaled(x, factor * (1.0 + 8e-7 * (-1.0) ** len(calls)))\n"
        ),
        "repeat",
    ),
    "one buffer for every call": (
        (
            "kept = {}\n\n\ndef run(x, factor):\n    y = kept.setdefault(x.shape, torch.empty_like(x))\n"
            "    y.copy_(scaled(x, factor))\n    return y.view(-1)\n"
        ),
        "aliasing",
    ),
    "two buffers in turn": (
        (
            "kept = []\n\n\ndef run(x, factor):\n    y = scaled(x, factor)\n"
            "    if len(kept) < 2:\n        kept.append(y)\n        return y\n    kept.reverse()\n"
            "    kept[0].copy_(y)\n    return kept[0]\n"
        ),
        "aliasing",
    ),
    "writes its input": (
        "def run(x, factor):\n    y = scaled(x, factor)\n    x.zero_()\n    return y\n",
        "mutation",
    ),
    "wrong factor": ("def run(x, factor):\n    return scaled(x, 2.0)\n", "rel_norm"),
    "another shape": ("def run(x, factor):\n    return scaled(x, factor)[:-1]\n", "shape"),
    "two outputs": ("def run(x, factor):\n    return scaled(x, factor), x\n", "outputs"),
    "too much memory": (
        (
            "def run(x, factor):\n    room = torch.empty(1 << 20 if x.numel() == 1000 else 1, device=x.device)\n"
            "    return scaled(x, factor)\n"
        ),
        "memory",
    ),
    "copies too much": (
        (
            "def run(x, factor):\n    room = torch.empty_like(x)\n    room.copy_(x)\n    room.copy_(x)\n"
            "    return scaled(room, factor)\n"
        ),
        "copies",
    ),
    "finished by an alarm": (
        (
            "import signal\n\n\ndef run(x, factor):\n    y = torch.empty_like(x)\n"
            "    signal.signal(signal.SIGALRM, lambda *_: y.copy_(x))\n"
            "    signal.setitimer(signal.ITIMER_REAL, 0.3)\n    return y\n"
        ),
        "finite",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_kernel_is_incorrect_by_the_right_check(launcher: ProcessLauncher, name: str) -> None:
    source, gate = WRONG[name]
    verdict = launcher.launch(job(KERNEL + source, static_rules=False, workloads=("smoke_n1000",)))
    assert verdict.status is VerdictStatus.INCORRECT, verdict.message
    assert failed_gates(verdict) == {gate}
    assert [result.label for result in verdict.workloads] == ["smoke_n1000"]
    assert verdict.message.startswith("smoke_n1000")


def test_a_later_call_that_is_wrong_says_which(launcher: ProcessLauncher) -> None:
    verdict = launcher.launch(job(KERNEL + WRONG["honest eight times"][0]))
    assert "call 9 of one process" in verdict.message
    assert "earlier calls were right" in verdict.message


def test_calls_that_differ_by_less_than_a_gate_allows_are_legal(launcher: ProcessLauncher) -> None:
    run = WRONG["depends on the number of the call"][0].replace("8e-7", "2e-7")
    verdict = launcher.launch(job(KERNEL + run, static_rules=False, workloads=("smoke_n1000",)))
    assert verdict.status is VerdictStatus.UNTIMED, verdict.message
    assert any(check.gate == "repeat" for result in verdict.workloads for check in result.checks)


def test_a_lazy_subclass_is_no_tensor(launcher: ProcessLauncher) -> None:
    source = KERNEL + (
        "class Lazy(torch.Tensor):\n    pass\n\n\ndef run(x, factor):\n    return scaled(x, factor).as_subclass(Lazy)\n"
    )
    verdict = launcher.launch(job(source, static_rules=False))
    assert (verdict.status, "Lazy" in verdict.message) == (VerdictStatus.INCORRECT, True)
    assert launcher.launch(job(source)).status is VerdictStatus.RULE_VIOLATION


# Compiling runs the host code first: this reaches the calls that are checked.
INTERPRETED = "def run(x, factor):\n    if os.environ.get('TRITON_INTERPRET'):\n"
ENDS = {
    "exits at import": ("import os\nos._exit(0)\n", VerdictStatus.ENDED_EARLY, "exit status 0"),
    "exits in run": (
        "import os\n\n\n" + INTERPRETED + "        os._exit(7)\n    return scaled(x, factor)\n",
        VerdictStatus.ENDED_EARLY,
        "exit status 7",
    ),
    "raises": (
        "def run(x, factor):\n    raise ValueError('no such tile')\n",
        VerdictStatus.RUNTIME_ERROR,
        "no such tile",
    ),
    "has no run": ("x = 1\n", VerdictStatus.RUNTIME_ERROR, "must define run"),
    "does not parse": ("def run(:\n", VerdictStatus.COMPILE_ERROR, "line"),
    "leaves by SystemExit": (
        "import os, sys\n\n\n" + INTERPRETED + "        sys.exit(0)\n    return scaled(x, factor)\n",
        VerdictStatus.ENDED_EARLY,
        "exit status 0",
    ),
    "crashes": (
        "import ctypes, os\n\n\n" + INTERPRETED + "        ctypes.string_at(0)\n    return scaled(x, factor)\n",
        VerdictStatus.RUNTIME_ERROR,
        "SIGSEGV",
    ),
    "reads far outside": (
        (
            "@triton.jit\ndef _far(x, y):\n    o = tl.arange(0, 128)\n"
            "    tl.store(y + o, tl.load(x + o + (1 << 40)))\n\n\n"
            "def run(x, factor):\n    y = torch.empty_like(x)\n    _far[(1,)](x, y)\n    return y\n"
        ),
        VerdictStatus.RUNTIME_ERROR,
        "(solution.py line 22): kernel _far: a load out of bounds of its tensors in 128 of 128 lanes",
    ),
    "asks for the moon": (
        "def run(x, factor):\n    return [bytearray(1 << 40)]\n",
        VerdictStatus.OUT_OF_MEMORY,
        "MemoryError",
    ),
}


@pytest.mark.parametrize("name", ENDS)
def test_a_candidate_that_fails_is_a_verdict(launcher: ProcessLauncher, name: str) -> None:
    source, status, words = ENDS[name]
    source = source if "import os\nos._exit" in source or "run(:" in source else KERNEL + source
    verdict = launcher.launch(job(source, static_rules=False))
    assert (verdict.status, words in verdict.message) == (status, True), verdict.message


def test_a_hang_with_children_ends_in_time_and_leaves_nobody(launcher: ProcessLauncher) -> None:
    source = KERNEL + (
        "import os, signal, subprocess, time\n\n\ndef run(x, factor):\n"
        "    if not os.environ.get('TRITON_INTERPRET'):\n        return scaled(x, factor)\n"
        "    signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "    for _ in range(4):\n        subprocess.Popen(['sleep', '4321'], start_new_session=True)\n"
        "    while True:\n        time.sleep(1)\n"
    )
    began = time.monotonic()
    verdict = launcher.launch(job(source, limits=Limits(call_s=2.0), static_rules=False))
    assert verdict.status is VerdictStatus.TIMED_OUT
    assert time.monotonic() - began < 40
    assert subprocess.run(["pgrep", "-f", "sleep 4321"], capture_output=True, check=False).stdout == b""
    assert launcher.launch(job(HONEST)).status is VerdictStatus.UNTIMED


def test_a_candidate_cannot_reach_what_judges_it(launcher: ProcessLauncher) -> None:
    source = KERNEL + (
        "import os, socket\n\n\ndef attempts(x):\n"
        "    parent = os.getppid()\n"
        "    yield 'memory', lambda: open(f'/proc/{parent}/mem', 'rb').read(1)\n"
        "    yield 'environment', lambda: open(f'/proc/{parent}/environ', 'rb').read(1)\n"
        "    yield 'signal', lambda: os.kill(parent, 0)\n"
        "    yield 'write', lambda: open('/tmp/escaped', 'w')\n"
        "    yield 'shadow', lambda: open('/etc/shadow').read()\n"
        "    yield 'network', lambda: socket.create_connection(('127.0.0.1', 9), 1)\n"
        f"    yield 'repository', lambda: open({__file__!r}).read()\n"
        "    yield 'inherited', lambda: os.read(0, 1) or 1 / 0\n\n\n"
        "def run(x, factor):\n    allowed = []\n"
        "    for name, attempt in attempts(x):\n        try:\n            attempt()\n            allowed.append(name)\n"
        "        except (OSError, ZeroDivisionError):\n            pass\n"
        "    raise ValueError(f'allowed: {allowed}; {sorted(k for k in os.environ if \"CANARY\" in os.environ[k])}')\n"
    )
    verdict = launcher.launch(job(source, static_rules=False))
    assert verdict.status is VerdictStatus.RUNTIME_ERROR
    assert "allowed: []; []" in verdict.message


def test_forged_output_means_nothing(launcher: ProcessLauncher) -> None:
    source = KERNEL + (
        "import os\n\n\ndef run(x, factor):\n    for fd in (0, 1, 2):\n        try:\n"
        '            os.write(fd, b\'{"status": "passed"}\')\n        except OSError:\n            pass\n'
        "    return scaled(x, 1.0)\n"
    )
    assert launcher.launch(job(source, static_rules=False)).status is VerdictStatus.INCORRECT


def test_garbage_on_the_private_channel_is_no_answer(launcher: ProcessLauncher) -> None:
    source = KERNEL + (
        "import os\n\n\ndef run(x, factor):\n    fds = range(3, 64) if os.environ.get('TRITON_INTERPRET') else ()\n"
        "    for fd in fds:\n        try:\n"
        "            os.write(fd, b'D' + (8).to_bytes(8, 'little') + b'\\x00' * 8)\n        except OSError:\n"
        "            pass\n    return scaled(x, factor)\n"
    )
    verdict = launcher.launch(job(source, static_rules=False))
    assert verdict.status is VerdictStatus.ENDED_EARLY
    assert launcher.launch(job(HONEST)).status is VerdictStatus.UNTIMED


def test_a_kernel_that_is_never_launched_is_a_violation(launcher: ProcessLauncher) -> None:
    source = "import torch\n\n\ndef run(x, factor):\n    y = torch.empty_like(x)\n    y.copy_(x)\n    return y\n"
    bundle = task(reference_py="def run(x, factor):\n    return x.clone()\n")
    verdict = launcher.launch(job(source, task=bundle))
    assert verdict.status is VerdictStatus.RULE_VIOLATION
    assert verdict.violations


def test_compile_alone_runs_nothing(launcher: ProcessLauncher) -> None:
    verdict = launcher.launch(job(KERNEL + WRONG["wrong factor"][0], kind=JobKind.COMPILE))
    assert verdict.status is VerdictStatus.UNTIMED
    assert [result.label for result in verdict.workloads] == ["large"]
    assert verdict.message.endswith("nothing ran")


def test_a_broken_task_is_the_tasks_fault(launcher: ProcessLauncher) -> None:
    bundle = task(reference_py="def run(x, factor):\n    raise KeyError('coefficients')\n")
    with pytest.raises(UsageError, match=r"scaling.*reference\.py.*coefficients"):
        launcher.launch(job(HONEST, task=bundle))
    assert launcher.launch(job(HONEST)).status is VerdictStatus.UNTIMED


RANDOM = "import torch\n\n\ndef run(x, factor):\n    return x + torch.rand_like(x)\n"


@pytest.mark.parametrize(
    ("changes", "limit", "told"),
    [({}, "2.0", "zeros pass every gate"), ({"reference_py": RANDOM}, "1e-06", "make it deterministic")],
)
def test_a_task_that_tells_nothing_apart_judges_nobody(
    launcher: ProcessLauncher, changes: dict[str, str], limit: str, told: str
) -> None:
    bundle = task(**changes)
    hidden = {**bundle.hidden, "workloads.json": bundle.hidden["workloads.json"].replace("1e-06", limit)}
    with pytest.raises(UsageError, match=f"{told}.*tasks check"):
        launcher.launch(job(HONEST, task=dataclasses.replace(bundle, hidden=hidden)))


FOREIGN = {
    "arithmetic": "return scaled(x, factor / 2) * 2.0",
    "hidden in a container": "return [scaled(x, factor)][0].mul(1.0)",
    "a cast": "y = torch.empty_like(x, dtype=torch.float64); y.copy_(x); return scaled(x, factor)",
}


FILLS_THE_MEMORY = """
hog, size = [], 1 << 26
while size > 1000:
    try:
        hog.append(bytearray(size))
    except MemoryError:
        size //= 16
"""
BLAMES_THE_TASK = {
    "fills the memory": (FILLS_THE_MEMORY, VerdictStatus.OUT_OF_MEMORY),
    "changes torch": ("torch.randn = torch.manual_seed = None\n", VerdictStatus.RUNTIME_ERROR),
}


@pytest.mark.parametrize("name", BLAMES_THE_TASK)
def test_a_candidate_that_makes_inputs_fail_is_not_the_tasks_fault(launcher: ProcessLauncher, name: str) -> None:
    text, status = BLAMES_THE_TASK[name]
    limits = Limits(candidate_memory_bytes=6 << 30)
    found = launcher.launch(job(HONEST + text, kind=JobKind.COMPILE, static_rules=False, limits=limits))
    assert found.status is status, found.message


@pytest.mark.parametrize("text", ["", "run = 3\n"])
def test_a_file_without_run_is_told_what_it_lacks(launcher: ProcessLauncher, text: str) -> None:
    judged = launcher.launch(job(text, static_rules=False))
    assert (judged.status, judged.message) == (VerdictStatus.RUNTIME_ERROR, "solution.py must define run(...)")
    compiled = launcher.launch(job(text, kind=JobKind.COMPILE)).compile_report
    assert compiled is not None and compiled.error == "solution.py must define run(...)"


@pytest.mark.parametrize("name", FOREIGN)
def test_computing_with_pytorch_is_a_violation_that_the_run_shows(launcher: ProcessLauncher, name: str) -> None:
    source = f"{KERNEL}def run(x, factor):\n    {FOREIGN[name]}\n"
    verdict = launcher.launch(job(source, static_rules=False, workloads=("smoke_n1000",)))
    assert verdict.status is VerdictStatus.RULE_VIOLATION, verdict.message
    assert [violation.check for violation in verdict.violations] == ["runtime.operators"]


def test_a_device_that_is_not_there_is_refused(launcher: ProcessLauncher) -> None:
    with pytest.raises(UsageError, match="--device cpu"):
        launcher.launch(job(HONEST, device="cuda"))


def test_a_hidden_input_does_not_come_out_in_an_exception(launcher: ProcessLauncher) -> None:
    source = KERNEL + (
        "def run(x, factor):\n    y = scaled(x, factor)\n"
        "    if x.numel() == 300:\n        raise ValueError(f'seen: {WHAT}')\n    return y\n"
    )
    verdict = launcher.launch(job(source.replace("WHAT", "x.numel()"), static_rules=False))
    assert verdict.status is VerdictStatus.RUNTIME_ERROR
    assert verdict.message == "run() on hidden.zeros raised ValueError (solution.py line 22)"
    verdict = launcher.launch(job(source.replace("WHAT", "x"), static_rules=False))
    assert [violation.check for violation in verdict.violations] == ["runtime.operators"]
    assert "seen" not in verdict.message


def test_a_prescribed_precision_is_read_off_the_compiled_kernels(launcher: ProcessLauncher) -> None:
    bundle = find_task("muon").bundle()
    source = Path(find_task("muon").guidance or "", "baseline.py").read_text(encoding="utf-8")
    narrow = source.replace("torch.float16", "torch.bfloat16")
    assert narrow != source
    verdict = launcher.launch(job(narrow.replace("tl.float16", "tl.bfloat16"), task=bundle, kind=JobKind.COMPILE))
    assert verdict.status is VerdictStatus.RULE_VIOLATION, verdict.message
    assert {violation.check for violation in verdict.violations} == {"compiled.precision"}


def test_a_task_for_one_rank_is_not_judged_on_several(launcher: ProcessLauncher) -> None:
    with pytest.raises(UsageError, match="task scaling is for one rank, not for 2"):
        launcher.launch(job(HONEST, ranks=2))


@pytest.mark.parametrize("payload", ["b'[' * 100000", 'b\'{"kinds": [[1]], "text": NaN, "line": 1}\'', "b'\\xff'"])
def test_no_error_report_of_a_candidate_ends_the_evaluator(launcher: ProcessLauncher, payload: str) -> None:
    source = KERNEL + (
        "import os\n\n\ndef run(x, factor):\n"
        f"    payload = {payload}\n"
        "    for fd in range(3, 64) if os.environ.get('TRITON_INTERPRET') else ():\n        try:\n"
        "            os.write(fd, b'E' + len(payload).to_bytes(8, 'little') + payload)\n        except OSError:\n"
        "            pass\n    return scaled(x, factor)\n"
    )
    assert launcher.launch(job(source, static_rules=False)).status in (
        VerdictStatus.ENDED_EARLY,
        VerdictStatus.RUNTIME_ERROR,
    )


def test_a_check_of_memory_on_a_cpu_says_that_it_needs_a_gpu_and_runs_nothing(launcher: ProcessLauncher) -> None:
    verdict = launcher.launch(job(HONEST, kind=JobKind.SANITIZE, check=SanitizerCheck.RACECHECK, device="cpu"))
    assert verdict.status is VerdictStatus.UNTIMED and verdict.sanitizer is None
    assert verdict.notes == (
        "no racecheck: candidates ran on the CPU, and it looks at kernels on a GPU; use a machine with one",
    )
    assert verdict.environment.isolation is None and verdict.compile_report is None
    refused = launcher.launch(
        job(
            "import torch\n\n\ndef run(x, factor):\n    return torch.mul(x, factor)\n",
            kind=JobKind.SANITIZE,
            device="cpu",
        )
    )
    assert refused.status is VerdictStatus.RULE_VIOLATION
