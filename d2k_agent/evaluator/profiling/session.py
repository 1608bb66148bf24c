"""A candidate under the profiler from end to end: its folder, the run, and what came back."""

from __future__ import annotations

import json
import os
import secrets
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from d2k_agent.contract.archive import own_archive, sized
from d2k_agent.contract.profile import HotLine, Profile, ProfileWish
from d2k_agent.evaluator.profiling import metrics, ncu, target
from d2k_agent.evaluator.profiling.digest import digest, hottest, value
from d2k_agent.evaluator.profiling.ncu import Finished, Pass
from d2k_agent.evaluator.profiling.report import UNKNOWN_METRIC, Progress, missing, read_progress, require_done
from d2k_agent.evaluator.profiling.source import read_hot_lines
from d2k_agent.evaluator.profiling.table import Launch, in_range, read_launches
from d2k_agent.evaluator.profiling.unavailable import MISSING, ProfileUnavailable

WARM_UP_CALLS, MORE_WARM_UP_CALLS = 3, 4
"""Calls before the one that is profiled: so many, and up to so many more, that nobody can know."""
MOST_DEEP_KERNELS, DEEP_SHARE = 3, 0.8
"""Sections look into the longest kernels: as many as hold this part of the time, and no more of them than that."""
MOST_DEEP_LAUNCHES = 16
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
    wish: ProfileWish | None = None,
) -> Profile:
    """The profile of one call of the candidate's run() on a workload, after warm-up and autotuning.

    `generator` is the text of get_inputs.py, `limit_s` bounds all of it, `unsafe` leaves the candidate unconfined,
    `environment` (this process's) says where programs are. `device` is "cpu" only to try the process without a GPU.
    `wish` names the sections to look into, for the longest kernels, in runs of their own.
    Raises ProfileUnavailable where the machine cannot, CandidateFault where the candidate raised, hung or ended,
    TaskFault where get_inputs.py raised, IsolationRefused, and OSError.
    """
    wish = wish or ProfileWish()
    until = time.monotonic() + limit_s
    with _session(source, generator, workload, scratch_parent, unsafe, environment, device) as session:
        launches, notes = session.launches(Pass(metrics.LIGHT), limit_s)
        deeper: Sequence[Launch] = ()
        lines: dict[str, tuple[HotLine, ...]] = {}
        if wish.sections:
            hot = hottest(launches, MOST_DEEP_KERNELS, DEEP_SHARE)
            named = tuple(name for name in hot if ncu.plain(name))
            if len(named) < len(hot):
                notes.append(f"{len(hot) - len(named)} kernel(s) not looked into: their names cannot be asked for")
            try:
                if named:
                    deeper = session.deeper(wish, named, notes, until)
                    lines = session.lines(wish, named, notes, until)
            except ProfileUnavailable as problem:
                notes.append(f"sections are left out: {problem}")
        return digest(launches, str(workload["label"]), session.tool(), notes, deeper, lines, wish)


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
    how often it launched which kernels, C++ names mangled.

    Arguments and errors as profile_candidate() has them; a call of which only a part was profiled is unavailable.
    """
    with _session(source, generator, workload, scratch_parent, unsafe, environment, device) as session:
        launches, notes = session.launches(Pass((metrics.DURATION,), mangled=True), limit_s)
    durations = [value(launch, metrics.DURATION) for launch in launches]
    if notes or None in durations:
        raise ProfileUnavailable("; ".join(notes) or "the profiler left out the duration of a kernel; try again")
    total_ns = sum(duration for duration in durations if duration is not None)
    return total_ns / 1e6, dict(Counter(launch.name for launch in launches))


@contextmanager
def _session(
    source: str,
    generator: str,
    workload: Mapping[str, Any],
    parent: str,
    unsafe: bool,
    environment: Mapping[str, str] | None,
    device: str,
) -> Iterator[_Session]:
    """A session in a folder of its own, which is gone afterwards. Raises ProfileUnavailable without a profiler."""
    given = surroundings(environment)
    found = ncu.find_ncu(given)
    if found is None:
        raise ProfileUnavailable(MISSING)
    with tempfile.TemporaryDirectory(prefix="ncu-", dir=parent, ignore_cleanup_errors=True) as made:
        folder = os.path.realpath(made)
        warm_up = WARM_UP_CALLS + secrets.randbelow(MORE_WARM_UP_CALLS + 1)
        order = order_in(folder, source, generator, [workload], device=device, unsafe=unsafe, warm_up=warm_up)
        yield _Session(found, folder, order, given)


class _Session:
    """One candidate and workload; every pass starts the profiler anew, and compiled kernels are kept between them."""

    def __init__(self, found: str, folder: str, order: Mapping[str, Any], environment: Mapping[str, str]) -> None:
        self._ncu, self._folder, self._order, self._environment = found, folder, order, environment
        self._ours: tuple[str, ...] = ()

    def tool(self) -> str:
        """The profiler's name and version."""
        return ncu.describe_tool(self._ncu, self._environment.get("PATH", os.defpath))

    def launches(self, wanted: Pass, limit_s: float) -> tuple[list[Launch], list[str]]:
        """The launches of the profiled call with the wanted counters, and what a reader must know about them."""
        until = time.monotonic() + limit_s
        asked = list(wanted.metrics)
        progress, finished = self._run(wanted, until - time.monotonic())
        for last in (False, True):
            unknown = [name for name in asked if any(_refuses(line, name) for line in finished.errors())]
            if not unknown:
                break
            # Another generation's counters: first without those that it names, then the ones that all have.
            asked = list(metrics.BASIC) if last else [name for name in asked if name not in unknown]
            progress, finished = self._run(replace(wanted, metrics=tuple(asked)), until - time.monotonic())
        require_done(progress, finished, limit_s)
        found = read_launches(finished.output)
        launches = in_range(found, target.PROFILED)
        if not launches:
            raise ProfileUnavailable(_nothing_seen(finished))
        # What is profiled before the candidate is confined must be so in every pass: the library loads late.
        ready = [item.function.rpartition("::")[2] for item in in_range(found, target.READY) if item.ranges]
        self._ours = tuple(dict.fromkeys(ready)) or self._ours
        notes = [_CUT] if not wanted.kernels and len(launches) >= ncu.MOST_LAUNCHES else []
        notes += missing(finished)
        if len(asked) < len(wanted.metrics):
            left = len(wanted.metrics) - len(asked)
            notes.append(f"{left} counter(s) are not known for this GPU: what they say is left out")
        return launches, notes

    def deeper(self, wish: ProfileWish, kernels: tuple[str, ...], notes: list[str], until: float) -> list[Launch]:
        """Launches of these kernels with the counters of the sections wished for; none where those are not counters."""
        sections = [metrics.SECTION_METRICS[name] for name in wish.sections if name in metrics.SECTION_METRICS]
        if not sections:
            return []
        counters = tuple(dict.fromkeys((metrics.DURATION, *(name for section in sections for name in section))))
        found, told = self.launches(
            Pass(counters, kernels=self._with_ours(kernels), most_launches=MOST_DEEP_LAUNCHES), _left(until)
        )
        notes += told
        return [launch for launch in found if launch.function in kernels]

    def lines(
        self, wish: ProfileWish, kernels: tuple[str, ...], notes: list[str], until: float
    ) -> dict[str, tuple[HotLine, ...]]:
        """The hot lines of these kernels, where the section `source` is wished for."""
        if "source" not in wish.sections:
            return {}
        wanted = Pass(source=True, kernels=self._with_ours(kernels), most_launches=MOST_DEEP_LAUNCHES)
        progress, finished = self._run(wanted, _left(until))
        require_done(progress, finished, _left(until))
        notes += missing(finished)
        found = read_hot_lines(finished.output)
        if not found:
            notes.append("no lines of solution.py: the profiler's source page names none")
        return {name: lines for name, lines in found.items() if name in kernels}

    def _with_ours(self, kernels: tuple[str, ...]) -> tuple[str, ...]:
        return (*kernels, *(name for name in self._ours if ncu.plain(name) and name not in kernels))

    def _run(self, wanted: Pass, limit_s: float) -> tuple[Progress, Finished]:
        argv = ncu.command_line(self._ncu, wanted)
        environment = ncu.tool_environment(self._environment, self._order["scratch"])
        return run_target(argv, self._order, environment, self._folder, limit_s)


def surroundings(environment: Mapping[str, str] | None) -> dict[str, str]:
    """`environment`, else this process's: where programs and libraries are."""
    return dict(os.environ if environment is None else environment)


def order_in(
    folder: str,
    source: str,
    generator: str,
    workloads: Sequence[Mapping[str, Any]],
    *,
    device: str,
    unsafe: bool,
    warm_up: int = WARM_UP_CALLS,
    flush: bool = True,
) -> dict[str, Any]:
    """The order for the target, with the candidate's folder made below `folder` and its source in it.

    run() is called on each workload `warm_up` times before the call that counts; `flush` empties the L2 cache before
    that one.
    """
    scratch = os.path.join(folder, "s")
    os.mkdir(scratch, 0o700)
    with open(os.path.join(scratch, "solution.py"), "w", encoding="utf-8", errors="surrogatepass") as file:
        file.write(source)
    return {
        "device": device,
        "generator": generator,
        "workloads": [dict(workload) for workload in workloads],
        "warm_up": warm_up,
        "flush": flush,
        "memory_bytes": None,
        "unsafe_no_sandbox": unsafe,
        "other_threads": True,
        "scratch": scratch,
        "report": os.path.join(folder, "report"),
    }


def run_target(
    argv: Sequence[str], order: Mapping[str, Any], environment: Mapping[str, str], folder: str, limit_s: float
) -> tuple[Progress, Finished]:
    """Run a tool over the target with `order`; how far the target came, and what the tool printed."""
    report = os.open(order["report"], os.O_CREAT | os.O_TRUNC | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        given = sized(own_archive()) + sized(json.dumps(order).encode())
        finished = ncu.run(argv, given, environment, folder, max(limit_s, 0.1))
        return read_progress(report), finished
    finally:
        os.close(report)


def _left(until: float) -> float:
    return max(until - time.monotonic(), 0.1)


def _refuses(line: str, metric: str) -> bool:
    return UNKNOWN_METRIC in line and metric in line


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
