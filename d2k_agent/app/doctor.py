"""What this machine can do: each look is one function that returns findings, and `examine` runs them all.

torch is asked in the evaluator's own interpreter, never imported here.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from d2k_agent.app.launching import evaluator_command
from d2k_agent.app.surroundings import Surroundings
from d2k_agent.config import Settings
from d2k_agent.errors import UsageError
from d2k_agent.reports.health import Finding, can_solve
from d2k_agent.reports.tables import size

CONTROLLER_PACKAGES = ("langgraph", "langgraph-checkpoint-sqlite", "pydantic", "litellm")
INSTALL = "run `make env` in the checkout, or `pip install 'd2k-agent[eval]'`"
LEAST_DISK_BYTES, COMFORTABLE_DISK_BYTES = 200 << 20, 2 << 30
LEAST_MEMORY_BYTES = 4 << 30
PROBE_S = 120.0


def examine(around: Surroundings) -> list[Finding]:
    """Every finding, in the order in which a reader would fix them. Takes some seconds: torch is loaded once."""
    system = system_findings(platform.system(), platform.release())
    if not can_solve(system):
        return system
    settings, findings = _settings(around)
    return [
        *system,
        *findings,
        *_packages(),
        *_evaluator(around, settings),
        *_gpu(around),
        *_isolation(),
        runs_folder_finding(around.runs_folder(settings)),
        *_room(around, settings),
        *_tasks(),
        _keys(around),
    ]


def _settings(around: Surroundings) -> tuple[Settings, list[Finding]]:
    path = around.settings_file()
    if path is None:
        return Settings(), [Finding("settings file", "ok", "none; the defaults hold")]
    try:
        settings = around.settings(Settings())
    except UsageError as error:
        return Settings(), [Finding("settings file", "missing", str(path), str(error))]
    return settings, [Finding("settings file", "ok", str(path))]


def system_findings(system: str, release: str) -> list[Finding]:
    """Is this a system on which candidates can be confined? `system` as platform.system() names it."""
    if system != "Linux":
        advice = "use Linux (5.13 or later): candidates are confined by its kernel"
        return [Finding("system", "missing", f"{system} {release}", advice)]
    return [
        Finding("system", "ok", f"{system} {release} {platform.machine()}"),
        Finding("python", "ok", platform.python_version()),
    ]


def _packages() -> list[Finding]:
    findings = []
    for name in CONTROLLER_PACKAGES:
        found = _version(name)
        if found is None:
            findings.append(Finding(name, "missing", "not installed", INSTALL))
        elif name == "litellm" and (pin := _pin(name)) not in (None, found):
            advice = f"run `pip install litellm=={pin}`: other releases have been compromised before"
            findings.append(Finding(name, "limited", f"{found}, but {pin} is pinned", advice))
        else:
            findings.append(Finding(name, "ok", found))
    if _version("rich") is None:
        findings.append(Finding("rich", "limited", "not installed; progress is plain lines", "run `pip install rich`"))
    return findings


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _pin(package: str) -> str | None:
    """The exact version that d2k-agent asks for; None when it is not installed as a package."""
    try:
        requirements = importlib.metadata.requires("d2k-agent") or []
    except importlib.metadata.PackageNotFoundError:
        return None
    for requirement in requirements:
        if requirement.startswith(f"{package}=="):
            return requirement.removeprefix(f"{package}==").split(";")[0].strip()
    return None


def _evaluator(around: Surroundings, settings: Settings) -> list[Finding]:
    prefix, python = evaluator_command(around, settings)
    offered = _ask_evaluator(around, prefix, python)
    if offered is None:
        advice = f"make sure that `{python}` starts Python 3.11 or later, or correct the settings file"
        return [Finding("evaluator", "missing", "its interpreter does not start", advice)]
    findings = [Finding("evaluator", "ok", f"Python {offered['python']} ({python})")]
    for name in ("torch", "triton", "numpy"):
        found = offered[name]
        findings.append(Finding(name, "ok", found) if found else Finding(name, "missing", "not importable", INSTALL))
    if not offered["interpreter"]:
        findings.append(Finding("triton interpreter", "missing", "not usable", INSTALL))
    for name, path in offered["tools"].items():
        advice = "install a triton wheel that brings it; without it compile reports lack counts"
        findings.append(Finding(name, "ok", path) if path else Finding(name, "limited", "not found", advice))
    names = ", ".join(offered["gpus"])
    advice = "none needed to find correct kernels; latencies and a selection need an NVIDIA GPU"
    findings.append(Finding("GPU", "ok", names) if names else Finding("GPU", "limited", "none torch can use", advice))
    return findings


def _ask_evaluator(around: Surroundings, prefix: Sequence[str], python: str) -> dict[str, Any] | None:
    source = (Path(__file__).parents[1] / "evaluator" / "capabilities.py").read_bytes()
    try:
        done = subprocess.run(
            [*prefix, python, "-"],
            input=source,
            capture_output=True,
            timeout=PROBE_S,
            check=False,
            env=around.evaluator_environment(through_prefix=bool(prefix)),
        )
        # What a prefix prints stands before it.
        answer: dict[str, Any] = json.loads(done.stdout.strip().rpartition(b"\n")[2])
    except (OSError, subprocess.TimeoutExpired, ValueError):
        return None
    return answer


_WATCHERS = {
    "ncu": "install Nsight Compute where a GPU is present; without it profiles hold no counters",
    "compute-sanitizer": "it comes with the CUDA toolkit: install that where a GPU is present, to use sanitize",
}
"""Programs that look at kernels, and what to do without them."""


def _gpu(around: Surroundings) -> list[Finding]:
    findings = []
    driver = _first_line(around, "nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader")
    if driver is None:
        findings.append(Finding("NVIDIA driver", "limited", "not found", "install it where a GPU is present"))
    else:
        findings.append(Finding("NVIDIA driver", "ok", driver))
    for name, advice in _WATCHERS.items():
        path = _tool(around, name)
        findings.append(Finding(name, "ok", path) if path else Finding(name, "limited", "not found", advice))
    compiler = next(filter(None, (_tool(around, name) for name in ("cc", "gcc", "clang"))), None)
    advice = "install gcc: Triton builds its launcher with it on a GPU (not needed on a CPU)"
    found = Finding("C compiler", "ok", compiler) if compiler else Finding("C compiler", "limited", "not found", advice)
    return [*findings, found]


def _first_line(around: Surroundings, name: str, *arguments: str) -> str | None:
    path = _tool(around, name)
    if path is None:
        return None
    try:
        done = subprocess.run([path, *arguments], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip().splitlines()[0] if done.returncode == 0 and done.stdout.strip() else None


def _tool(around: Surroundings, name: str) -> str | None:
    return shutil.which(name, path=around.environ.get("PATH"))


def _isolation() -> list[Finding]:
    from d2k_agent.sandbox import find_bubblewrap, probe

    found = probe()
    return isolation_findings(found.kind, found.details, find_bubblewrap())


def isolation_findings(kind: str, details: Mapping[str, Any], bubblewrap: str | None) -> list[Finding]:
    """What a probe found: the class that works for tools, Landlock (which candidates need), bubblewrap."""
    return [_walls(kind, details), _landlock(details), _bubblewrap(str(details["bubblewrap"]), bubblewrap)]


def _walls(kind: str, details: Mapping[str, Any]) -> Finding:
    if kind != "none":
        return Finding("isolation", "ok", kind)
    reasons = "; ".join(f"{name}: {details[name]}" for name in ("bubblewrap", "landlock"))
    advice = "install bubblewrap or use kernel 6.12 or later with Landlock, or give --unsafe-no-sandbox and trust all"
    return Finding("isolation", "missing", f"none works here ({reasons})", advice)


def _landlock(details: Mapping[str, Any]) -> Finding:
    abi = details["landlock_abi"]
    if abi > 0:
        return Finding("Landlock", "ok", f"ABI {abi}")
    advice = "use kernel 5.13 or later with Landlock enabled: candidates are confined by it (tools need 6.12)"
    return Finding("Landlock", "missing", "no", advice)


def _bubblewrap(outcome: str, program: str | None) -> Finding:
    """`outcome` is what came of trying it: "used", or why it is not."""
    if program is None:
        advice = "install it to give the agent's tools a /proc of their own (Landlock serves too, from kernel 6.12 on)"
        return Finding("bubblewrap", "limited", "not found", advice)
    if outcome != "used":
        advice = "allow user namespaces here, as it needs them (Landlock serves too, from kernel 6.12 on)"
        return Finding("bubblewrap", "limited", f"{program} does not work: {outcome}", advice)
    return Finding("bubblewrap", "ok", program)


def runs_folder_finding(folder: Path) -> Finding:
    """Can runs be written to `folder`, which need not exist yet?"""
    standing = _standing(folder)
    if standing.is_dir() and os.access(standing, os.W_OK | os.X_OK):
        return Finding("runs folder", "ok", str(folder))
    problem = "cannot be written" if standing.is_dir() else "is not a folder"
    advice = "change to a folder that you may write, or set runs_folder in the settings file"
    return Finding("runs folder", "missing", f"{standing} {problem}", advice)


def _standing(folder: Path) -> Path:
    """`folder`, or the nearest one above it that is there. What cannot be looked into counts as not there."""
    while not os.path.exists(folder) and folder != folder.parent:
        folder = folder.parent
    return folder


def _room(around: Surroundings, settings: Settings) -> list[Finding]:
    folder = _standing(around.runs_folder(settings))
    free = shutil.disk_usage(folder).free
    advice = f"free some space below {folder}: a run takes up to 10 MB, compiled kernels more"
    if free < LEAST_DISK_BYTES:
        disk = Finding("disk", "missing", f"{size(free)} free", advice)
    elif free < COMFORTABLE_DISK_BYTES:
        disk = Finding("disk", "limited", f"{size(free)} free", advice)
    else:
        disk = Finding("disk", "ok", f"{size(free)} free")
    available = _available_memory()
    if available is not None and available < LEAST_MEMORY_BYTES:
        advice = "end other programs: Muon's checks on a CPU take about 4 GiB"
        return [disk, Finding("memory", "limited", f"{size(available)} available", advice)]
    return [disk, Finding("memory", "ok", f"{size(available)} available")]


def _available_memory() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    for line in lines:
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return None


def _tasks() -> list[Finding]:
    from d2k_agent.catalog import list_tasks

    try:
        slugs = [task.slug for task in list_tasks()]
    except UsageError as error:
        return [Finding("tasks", "missing", "not found", str(error))]
    return [Finding("tasks", "ok", ", ".join(slugs))] if slugs else [Finding("tasks", "missing", "none", INSTALL)]


def _keys(around: Surroundings) -> Finding:
    names = ", ".join(name for name in around.provider_keys() if "_API" in name)
    advice = "export your provider's key (such as ANTHROPIC_API_KEY) to use its models; recorded runs need none"
    return Finding("API keys", "ok", names) if names else Finding("API keys", "limited", "none set", advice)
