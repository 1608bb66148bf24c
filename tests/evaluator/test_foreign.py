"""Acts that lead out of the meters' sight are seen in whatever way a candidate spells them, and only a candidate's."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from d2k_agent.contract import VerdictStatus
from d2k_agent.evaluator.foreign import broken_rule

PROGRAM = """
import importlib.util
import json
import os
import sys

import torch
import triton

from d2k_agent.evaluator.devices import driver
from d2k_agent.evaluator.foreign import broken_rule, watch_acts

for number, source in enumerate(json.load(sys.stdin)):
    if os.fork():
        os.wait()
        continue
    folder = os.path.abspath(f"candidate{number}")
    os.mkdir(folder)
    os.chdir(folder)
    with open("solution.py", "w") as file:
        file.write(source)
    spec = importlib.util.spec_from_file_location("solution", folder + "/solution.py")
    module = importlib.util.module_from_spec(spec)
    seen, failed = watch_acts(folder), ""
    try:
        spec.loader.exec_module(module)
    except Exception as problem:  # noqa: BLE001 - a source may raise anything; a test says what
        failed = repr(problem)
    try:
        driver.attach(bytes(64))  # an act of the evaluator's, after the candidate's
    except (OSError, RuntimeError):
        pass
    with open("../answers", "a") as file:
        print(json.dumps([source, seen, failed]), file=file)
    os._exit(0)
"""
OUTSIDE = """
import threading


def start(function):
    thread = threading.Thread(target=function)
    thread.start()
    thread.join()
"""
POSING = """
import subprocess, torch
def start(): subprocess.run(["true"])
start.__code__ = start.__code__.replace(co_filename=torch.__file__)
start()
"""
BY_ITS_NAMES = """
import triton.runtime.build as build
exec('subprocess.run(["gcc", "--version"])', vars(build))
"""
BY_ITS_CODE = """
import os, shutil, subprocess, sysconfig, types
import triton.runtime.build as build
build = types.FunctionType(build._build.__code__, {**vars(build), "subprocess": subprocess})
build("m", "missing.c", ".", [], [], [], [])
"""
BY_ITS_COMPILER = """
import os, triton.runtime.build as build
os.environ["CC"] = "true"
build._build("m", "missing.c", ".", [], [], [], [])
"""
BY_A_NAMESAKE = """
import os, triton.runtime.build as build
with open("gcc", "w") as file: file.write("#!/bin/sh\\n")
os.chmod("gcc", 0o755)
os.environ["CC"] = os.path.abspath("gcc")
build._build("m", "missing.c", ".", [], [], [], [])
"""
BY_THE_EVALUATOR = """
from d2k_agent.evaluator.devices import driver
try:
    driver.attach(bytes(64))
except (OSError, RuntimeError):
    pass
"""
BY_TORCH = """
from torch._lazy.closure import AsyncClosureHandler
handler = AsyncClosureHandler()
handler.run(lambda: None)
handler._closure_queue.join()
"""
ACTS = [
    ("import _thread; _thread.start_new_thread(int, ())", "runtime.workers"),
    ("from threading import Thread as T; T(target=int).start()", "runtime.workers"),
    ("from concurrent.futures import ThreadPoolExecutor as P; P(1).submit(int).result()", "runtime.workers"),
    ("import elsewhere; elsewhere.start(int)", "runtime.workers"),
    ("import os\nif not os.fork(): os._exit(0)\nos.wait()", "runtime.workers"),
    ("import subprocess; subprocess.run(['true'])", "runtime.workers"),
    ("exec('import os; os.system(\"true\")')", "runtime.workers"),
    ("from multiprocessing.util import spawnv_passfds as s; s(b'/bin/true', [b'true'], [])", "runtime.workers"),
    ("from torch.utils import cpp_extension; cpp_extension.is_ninja_available()", "runtime.workers"),
    (BY_TORCH, "runtime.workers"),
    (POSING, "runtime.workers"),
    (BY_ITS_NAMES, "runtime.workers"),
    (BY_ITS_CODE, "runtime.workers"),
    (BY_ITS_COMPILER, "runtime.workers"),
    (BY_A_NAMESAKE, "runtime.workers"),
    ("import ctypes; ctypes.CDLL(None)", "runtime.native"),
    ("import ctypes; ctypes.string_at(id(1), 1)", "runtime.native"),
    ("import torch; torch.ops.load_library('libm.so.6')", "runtime.native"),
    (BY_THE_EVALUATOR, "runtime.native"),
    ("import torch; torch._C._to_dlpack(torch.ones(1))", "runtime.operators"),
    ("import torch; torch.utils.dlpack.to_dlpack(torch.ones(1))", "runtime.operators"),
    ("import numpy, torch; numpy.from_dlpack(torch.ones(1))", "runtime.operators"),
]
COMPILING = """
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.backends.nvidia.driver import libcuda_dirs
from triton.runtime.build import compile_module_from_src


@triton.jit
def add_one(x):
    tl.store(x, tl.load(x) + 1)


source = triton.compiler.ASTSource(fn=add_one, signature={"x": "*fp32"}, constexprs={})
assert triton.compile(source, target=GPUTarget("cuda", 90, 32)).asm["cubin"]
try:
    libcuda_dirs()
except AssertionError:
    pass  # there is none
text = "#include <Python.h>\\nstatic struct PyModuleDef module = {PyModuleDef_HEAD_INIT, \\"launcher\\"};"
text += "PyMODINIT_FUNC PyInit_launcher(void) { return PyModule_Create(&module); }"
assert compile_module_from_src(text, "launcher").__name__ == "launcher"
"""
COUNTING = """
import torch
torch.cuda.is_available(), torch.cuda.device_count(), torch.cuda._raw_device_count_nvml
try:
    torch.cuda._raw_device_count_nvml()
except OSError:
    pass
"""
HONEST = {
    "an import": "import functools, math, time, dataclasses, torch\n"
    "G = torch.empty(4)\nG.data_ptr(); time.sleep(0); torch.from_dlpack",
    "Triton compiling": COMPILING,
    "torch counting GPUs": COUNTING,
}


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[list[str], str]]:
    """Of each source: what was seen, and the exception by which it ended."""
    folder = tmp_path_factory.mktemp("acts")
    (folder / "elsewhere.py").write_text(OUTSIDE)
    path = f"{Path(__file__).resolve().parents[2]}{os.pathsep}{folder}"
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "PYTHONPATH": path}
    asked = json.dumps([*(source for source, _ in ACTS), *HONEST.values()])
    subprocess.run(
        [sys.executable, "-c", PROGRAM],
        check=True,
        env=environment,
        cwd=folder,
        input=asked,
        text=True,
        timeout=300,
    )
    answers = [json.loads(line) for line in (folder / "answers").read_text().splitlines()]
    return {source: (seen, failed) for source, seen, failed in answers}


@pytest.mark.parametrize(("source", "check"), ACTS)
def test_an_act_of_the_candidate_is_seen(source: str, check: str, told: dict[str, tuple[list[str], str]]) -> None:
    seen, _ = told[source]
    assert seen
    fault = broken_rule(seen[0])
    assert (fault.status, fault.violations[0].check) == (VerdictStatus.RULE_VIOLATION, check)
    assert seen[0] in fault.message


@pytest.mark.skipif(shutil.which("gcc") is None and shutil.which("clang") is None, reason="Triton builds with one")
@pytest.mark.parametrize("name", HONEST)
def test_what_is_nobodys_act_accuses_nobody(name: str, told: dict[str, tuple[list[str], str]]) -> None:
    assert told[HONEST[name]] == ([], "")


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("mul", "computed with PyTorch (mul)"),
        ("_local_scalar_dense", "read values of a tensor on the host"),
        ("tolist", "load them in a kernel"),
        ("os.fork", "started a thread or a process"),
    ],
)
def test_a_broken_rule_says_what_was_done_and_what_to_do_instead(name: str, told: str) -> None:
    fault = broken_rule(name)
    assert told in fault.message and fault.violations[0].message == fault.message
