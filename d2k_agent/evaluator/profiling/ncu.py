"""Nsight Compute on this machine: where it is, how it is started, and that nothing of it stays."""

from __future__ import annotations

import functools
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from d2k_agent.contract.archive import program
from d2k_agent.evaluator.profiling.metrics import SOURCE_SECTION
from d2k_agent.evaluator.profiling.target import PROFILED, READY
from d2k_agent.isolation import descendants, end_descendants

MOST_LAUNCHES = 512
"""Launches of one call that are profiled; a call with more is profiled in part."""
MAX_OUTPUT_BYTES = 32 << 20
_PLACES = ("/usr/local/cuda/bin/ncu", "/usr/local/cuda*/bin/ncu", "/opt/nvidia/nsight-compute/*/ncu")
_START = (
    "from d2k_agent.evaluator.profiling.target import main\n"
    "main(take(int.from_bytes(take(8), 'little')))\n"  # the order
)
TARGET = (sys.executable, "-P", "-c", program(_START))
"""The command that a tool starts and watches: the target's program, behind its archive."""
_ENVIRONMENT = (
    *("PATH", "LANG", "LD_LIBRARY_PATH", "CC", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"),
    *("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "NVIDIA_VISIBLE_DEVICES"),  # the GPU of this process
)


_ERROR = re.compile(r'(?:==PROF== Profiling "[^"]*" - [^"]*?)?==ERROR==(?P<words>.*)')
"""An error has a line of its own or breaks off that of a launch's progress; elsewhere the words are a kernel's name."""


@dataclass(frozen=True)
class Finished:
    """What a run of the profiler left: what it printed, whether time was up, and whether more than MAX_OUTPUT_BYTES
    was printed, of which the rest is lost.
    """

    output: str
    timed_out: bool
    cut: bool = False

    def errors(self) -> list[str]:
        """What it called an error, in its words."""
        return [found["words"].strip() for line in self.output.splitlines() if (found := _ERROR.match(line))]

    def last_words(self) -> str:
        """Its errors or, without any, its last lines, on one line."""
        lines = self.errors() or [line for line in self.output.splitlines() if line.strip()][-3:]
        return " / ".join(lines)[-600:] or "it printed nothing"


def find_ncu(environment: Mapping[str, str]) -> str | None:
    """The profiler's path; None without one."""
    return find_program("ncu", environment, _PLACES)


def find_program(name: str, environment: Mapping[str, str], patterns: Sequence[str]) -> str | None:
    """A program's path: on the PATH, in CUDA_HOME, in the usual places (the newest there); None without one."""
    found = shutil.which(name, path=environment.get("PATH", ""))
    if found is None and "CUDA_HOME" in environment:
        found = shutil.which(os.path.join(environment["CUDA_HOME"], "bin", name))
    if found is None:
        places = [place for pattern in patterns for place in sorted(glob.glob(pattern), key=_version_in, reverse=True)]
        found = next((place for place in places if os.access(place, os.X_OK)), None)
    return found


def _version_in(path: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", path)]


@dataclass(frozen=True)
class Pass:
    """What one run of the profiler reads: counters, or the source page; of all kernels, or of those named.

    `mangled`: kernels are told by their whole names, namespaces and all, which the profiler leaves out else. `cold`:
    caches are emptied before every replay of a launch, else its counters are of caches as the call left them, which
    holds for the first pass alone.
    A name that is no plain identifier is refused: names come from what the profiler read off the candidate's kernels.
    """

    metrics: tuple[str, ...] = ()
    source: bool = False
    kernels: tuple[str, ...] = ()
    mangled: bool = False
    cold: bool = False
    most_launches: int = MOST_LAUNCHES + 1  # one more tells that there are more

    def __post_init__(self) -> None:
        refused = [name for name in self.kernels if not plain(name)]
        if refused:
            raise ValueError(f"{refused[0]!r} is no plain name of a kernel")


def plain(name: str) -> bool:
    """True for a name that can stand in a command line and in a pattern as it is."""
    return re.fullmatch(r"[A-Za-z_]\w{0,199}", name, re.ASCII) is not None


def command_line(ncu: str, wanted: Pass) -> list[str]:
    """The whole command: nothing in it comes from a candidate, a task or a model but plain names of kernels."""
    names = f"regex:^({'|'.join(wanted.kernels)})$"
    counters = [*("--page", "raw"), *("--metrics", ",".join(wanted.metrics))]
    lines = [*("--page", "source"), *("--print-source", "cuda,sass"), *("--section", SOURCE_SECTION)]
    return [
        *watching(ncu, wanted.most_launches, cold=wanted.cold),
        *(("--kernel-name", names) if wanted.kernels else ()),
        "--csv",
        *("--print-units", "base"),
        *("--print-kernel-base", "mangled" if wanted.mangled else "demangled"),
        *([*lines, "--import-source", "yes"] if wanted.source else counters),
        *TARGET,
    ]


def watching(ncu: str, most_launches: int, *, cold: bool = False) -> list[str]:
    """The beginning of a command that watches the target: nothing of the user's, our two ranges, no clock touched.

    Kernels are replayed, not the application: that would start the target once a pass, and it reads its order once.
    """
    return [
        ncu,
        *("--config-file", "off"),
        *("--target-processes", "application-only"),
        "--nvtx",
        *("--nvtx-include", f"{READY}/"),
        *("--nvtx-include", f"{PROFILED}/"),
        *("--launch-count", str(most_launches + 1)),  # and the one of our own
        *("--clock-control", "none"),
        *("--cache-control", "all" if cold else "none"),
    ]


def tool_environment(environment: Mapping[str, str], scratch: str) -> dict[str, str]:
    """The profiler's whole environment; its lock, sockets and temporary files lie in `scratch`.

    The lock's usual place, /tmp, fails where another user was first. The target writes to it as well. Its home is the
    folder around `scratch`, where a candidate cannot write: the profiler runs the rules that it finds in its home, and
    nobody confines it.
    """
    kept = {name: environment[name] for name in _ENVIRONMENT if name in environment}
    own = {"HOME": os.path.dirname(scratch), "TMPDIR": scratch, "LC_ALL": "C"}  # numbers with a point
    return {**kept, **own, "NV_COMPUTE_PROFILER_DISABLE_STOCK_FILE_DEPLOYMENT": "1"}


def run(argv: Sequence[str], given: bytes, environment: Mapping[str, str], folder: str, limit_s: float) -> Finished:
    """Run a command with `given` on its stdin, for `limit_s` seconds at most; whatever it started is ended then.

    Everything that this process has started since is taken for the command's. Raises OSError where it cannot be
    started, TimeoutError where something of it outlives SIGKILL.
    """
    before = descendants(os.getpid())
    # Files, so that neither a reader that is slow nor a descendant that keeps them open can hold anybody up.
    with tempfile.TemporaryFile(dir=folder) as stdin, tempfile.TemporaryFile(dir=folder) as output:
        stdin.write(given)
        stdin.seek(0)
        process = subprocess.Popen(
            list(argv),
            stdin=stdin,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=dict(environment),
            cwd=folder,
            start_new_session=True,
        )
        timed_out = False
        try:
            process.wait(timeout=limit_s)
        except subprocess.TimeoutExpired:
            timed_out = True
        finally:
            end_descendants(os.getpid(), keep=before)
            process.wait()
        output.seek(0)
        printed = output.read(MAX_OUTPUT_BYTES + 1)
    kept = printed[:MAX_OUTPUT_BYTES].decode("utf-8", "replace")
    return Finished(kept, timed_out, cut=len(printed) > MAX_OUTPUT_BYTES)


@functools.cache
def describe_tool(program_path: str, path: str, name: str = "ncu") -> str:
    """A tool's name and, where it tells, its version; `path` is the PATH to ask it with."""
    argv = [program_path, "--version"]
    try:
        told = subprocess.run(argv, capture_output=True, text=True, timeout=20, check=False, env={"PATH": path})
    except (OSError, subprocess.TimeoutExpired):
        return name
    found = re.search(r"Version (\d+(?:\.\d+)+)", told.stdout)
    return f"{name} {found[1]}" if found else name
