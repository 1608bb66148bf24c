"""Where a verdict was made, read from the machine itself."""

from __future__ import annotations

import functools
import os
import platform
import subprocess
import sys

import torch

from d2k_agent.contract import CompileReport, Environment
from d2k_agent.evaluator.devices import Device


def describe_environment(
    device: Device, target: str, isolation: str | None, evaluator_digest: str, task_digest: str
) -> Environment:
    """The environment of a verdict."""
    return Environment(
        machine=machine(),
        device=device.name,
        device_name=device.describe(),
        target=target,
        isolation=isolation,
        python=platform.python_version(),
        torch=torch.__version__,
        triton=triton_version(),
        evaluator_digest=evaluator_digest,
        task_digest=task_digest,
        driver=device.driver(),
        details=device.details(),
    )


@functools.cache
def present_target() -> str:
    """The target that is the GPU present, else b200."""
    if torch.cuda.is_available():
        words = torch.cuda.get_device_name().lower().split()
        found = [target for target in ("b300", "b200", "h200", "h100") if target in words]
        if found:
            return found[0]
    return "b200"


def compiled_for_present(report: CompileReport) -> bool:
    """True where a report is for the GPU that is here, so that run() chooses the same kernels."""
    if not torch.cuda.is_available() or report.target != present_target():
        return False
    here = torch.cuda.get_device_properties(0)
    told = (report.architecture, report.multiprocessors, report.shared_limit_bytes)
    return told == (f"sm_{here.major}{here.minor}", here.multi_processor_count, here.shared_memory_per_block_optin)


@functools.cache
def machine() -> str:
    """System, processor and core count in one line."""
    model = platform.machine()
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            model = next((line.split(":", 1)[1].strip() for line in file if line.startswith("model name")), model)
    except OSError:
        pass  # no procfs: the architecture alone has to do
    return f"{platform.system()} {platform.release()}, {model}, {os.cpu_count()} cores"


@functools.cache
def triton_version() -> str:
    """Triton's version, asked without importing it here: this process must stay able to fork both kinds of zygote."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("triton")
    except PackageNotFoundError:
        command = [sys.executable, "-c", "import triton; print(triton.__version__)"]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False).stdout.strip()
