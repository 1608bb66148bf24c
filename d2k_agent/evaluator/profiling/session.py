"""A candidate under the profiler from end to end: its folder, the run, and what came back."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from d2k_agent.contract.archive import own_archive, sized
from d2k_agent.contract.profile import Profile
from d2k_agent.evaluator.profiling import metrics, ncu, target
from d2k_agent.evaluator.profiling.digest import digest, value
from d2k_agent.evaluator.profiling.ncu import Finished
from d2k_agent.evaluator.profiling.report import Progress, read_progress, require_done
from d2k_agent.evaluator.profiling.table import Launch, in_range, read_launches
from d2k_agent.evaluator.profiling.unavailable import MISSING, ProfileUnavailable

WARM_UP_CALLS = 3
_UNKNOWN_METRIC = "Failed to find metric"
_CUT = f"run() launched more than {ncu.MOST_LAUNCHES} kernels: only the first {ncu.MOST_LAUNCHES} were profiled"


def profile_candidate(
    source: str,
    generator: str,
    workload: Mapping[str, Any],
    *,
    scratch_parent: str,
    limit_s: float,
    unsafe: bool,
    environment: Mapping[str, str] | None = None,
    device: str = "cuda",
) -> Profile:
    """The profile of one call of the candidate's run() on a workload, after warm-up and autotuning.

    `generator` is the text of get_inputs.py, `limit_s` bounds all of it, `unsafe` leaves the candidate unconfined,
    `environment` (this process's) says where programs are. `device` is "cpu" only to try the process without a GPU.
    Raises ProfileUnavailable where the machine cannot, CandidateFault where the candidate raised, hung or ended,
    TaskFault where get_inputs.py raised, IsolationRefused, and OSError.
    """
    session = _Session(source, generator, workload, scratch_parent, unsafe, environment, device)
    launches, notes = session.profile(metrics.ALL, limit_s)
    return digest(launches, str(workload["label"]), session.tool(), notes)


def device_clock(
    source: str,
    generator: str,
    workload: Mapping[str, Any],
    *,
    scratch_parent: str,
    limit_s: float,
    unsafe: bool,
    environment: Mapping[str, str] | None = None,
    device: str = "cuda",
) -> tuple[float, dict[str, int]]:
    """Milliseconds of one call of run() by the profiler's clock, the sum over its kernels, nothing else counted; and
    how often it launched which kernels.

    Arguments and errors as profile_candidate() has them; a call of which only a part was profiled is unavailable.
    """
    session = _Session(source, generator, workload, scratch_parent, unsafe, environment, device)
    launches, notes = session.profile((metrics.DURATION,), limit_s)
    durations = [value(launch, metrics.DURATION) for launch in launches]
    if notes or None in durations:
        raise ProfileUnavailable("; ".join(notes) or "the profiler left out the duration of a kernel; try again")
    total_ns = sum(duration for duration in durations if duration is not None)
    return total_ns / 1e6, dict(Counter(launch.name for launch in launches))


class _Session:
    """One candidate and workload; profile() may start the profiler more than once."""

    def __init__(
        self,
        source: str,
        generator: str,
        workload: Mapping[str, Any],
        parent: str,
        unsafe: bool,
        environment: Mapping[str, str] | None,
        device: str,
    ) -> None:
        self._source, self._parent = source, parent
        self._environment = dict(os.environ if environment is None else environment)
        self._order = {
            "device": device,
            "generator": generator,
            "workload": dict(workload),
            "warm_up": WARM_UP_CALLS,
            "memory_bytes": None,
            "unsafe_no_sandbox": unsafe,
            "other_threads": True,
        }
        found = ncu.find_ncu(self._environment)
        if found is None:
            raise ProfileUnavailable(MISSING)
        self._ncu = found

    def tool(self) -> str:
        """The profiler's name and version."""
        return ncu.describe_tool(self._ncu, self._environment.get("PATH", os.defpath))

    def profile(self, wanted: Sequence[str], limit_s: float) -> tuple[list[Launch], list[str]]:
        """The launches of the profiled call with the wanted counters, and what a reader must know about them."""
        until = time.monotonic() + limit_s
        asked = list(wanted)
        progress, finished = self._run(asked, until - time.monotonic())
        for last in (False, True):
            unknown = [name for name in asked if any(_refuses(line, name) for line in finished.errors())]
            if not unknown:
                break
            # Another generation's counters: first without those that it names, then the ones that all have.
            asked = list(metrics.BASIC) if last else [name for name in asked if name not in unknown]
            progress, finished = self._run(asked, until - time.monotonic())
        require_done(progress, finished, limit_s)
        launches = in_range(read_launches(finished.output), target.PROFILED)
        if not launches:
            raise ProfileUnavailable(_nothing_seen(finished))
        notes = [_CUT] if len(launches) >= ncu.MOST_LAUNCHES else []
        if len(asked) < len(wanted):
            notes.append(f"{len(wanted) - len(asked)} counter(s) are not known for this GPU: what they say is left out")
        return launches, notes

    def _run(self, wanted: Sequence[str], limit_s: float) -> tuple[Progress, Finished]:
        with tempfile.TemporaryDirectory(prefix="ncu-", dir=self._parent, ignore_cleanup_errors=True) as made:
            folder = os.path.realpath(made)
            scratch, told = os.path.join(folder, "s"), os.path.join(folder, "report")
            os.mkdir(scratch, 0o700)
            with open(os.path.join(scratch, "solution.py"), "w", encoding="utf-8", errors="surrogatepass") as file:
                file.write(self._source)
            report = os.open(told, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
            try:
                order = json.dumps({**self._order, "scratch": scratch, "report": told}).encode()
                environment = ncu.tool_environment(self._environment, scratch)
                argv = ncu.command_line(self._ncu, wanted)
                finished = ncu.run(argv, sized(own_archive()) + sized(order), environment, folder, max(limit_s, 0.1))
                return read_progress(report), finished
            finally:
                os.close(report)


def _refuses(line: str, metric: str) -> bool:
    return _UNKNOWN_METRIC in line and metric in line


def _nothing_seen(finished: Finished) -> str:
    if read_launches(finished.output):
        return (
            "the profiler saw no kernel in the profiled call: run() launched none on the GPU (Triton's interpreter "
            "runs them on the host), or launched them in another process, which is not followed"
        )
    return (
        "no kernels were profiled: the profiler saw none, not even the evaluator's own, and child processes are not "
        f"followed; it said: {finished.last_words()}"
    )
