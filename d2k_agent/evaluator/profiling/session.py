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
from dataclasses import dataclass, field, replace
from typing import Any

from d2k_agent.contract.archive import own_archive, sized
from d2k_agent.contract.profile import HotLine, Profile, ProfileWish
from d2k_agent.evaluator.faults import CandidateFault
from d2k_agent.evaluator.profiling import metrics, ncu, target
from d2k_agent.evaluator.profiling.digest import digest, hottest, value
from d2k_agent.evaluator.profiling.ncu import Finished, Pass
from d2k_agent.evaluator.profiling.report import UNKNOWN_METRIC, Progress, missing, read_progress, require_done
from d2k_agent.evaluator.profiling.sections import COLD, Look, left_out, looks, several_passes
from d2k_agent.evaluator.profiling.source import read_hot_lines
from d2k_agent.evaluator.profiling.table import Launch, in_range, read_launches
from d2k_agent.evaluator.profiling.unavailable import MISSING, ProfileUnavailable

WARM_UP_CALLS, MORE_WARM_UP_CALLS = 3, 4
"""Calls before the one that is profiled: so many, and up to so many more, that nobody can know."""
MOST_DEEP_KERNELS, DEEP_SHARE = 3, 0.8
"""Sections look into the longest kernels: as many as hold this part of the time, and no more of them than that."""
MORE_S = 10.0
"""Allowed to the run that reads the instruction pipes, beyond twice the time of the first one."""
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
        light = session.read(Pass(metrics.LIGHT), limit_s)
        notes = [*light.notes, *several_passes(light.passes)]
        # The first run compiled. Where the second one takes much longer, the time is left for the sections.
        limit_s = min(_left(until), 2 * (limit_s - _left(until)) + MORE_S)
        notes += [note for note in session.add_pipes(light.launches, limit_s) if note not in notes]
        deep = session.look_into(wish, light.launches, until) if wish.sections else Deep()
        notes += deep.notes
        label = str(workload["label"])
        profile = digest(light.launches, label, session.tool(), notes, deep.launches, deep.lines, wish)
        return replace(profile, passes=light.passes)


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
        found = session.read(Pass((metrics.DURATION,), mangled=True), limit_s)
    durations = [value(launch, metrics.DURATION) for launch in found.launches]
    if found.notes or None in durations:
        raise ProfileUnavailable("; ".join(found.notes) or "the profiler left out the duration of a kernel; try again")
    total_ns = sum(duration for duration in durations if duration is not None)
    return total_ns / 1e6, dict(Counter(launch.name for launch in found.launches))


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


@dataclass(frozen=True)
class Reading:
    """What one pass read: the launches of the profiled call, what a reader must know of them, and in how many runs of
    each launch (None: not told).
    """

    launches: Sequence[Launch]
    notes: Sequence[str]
    passes: int | None


@dataclass
class Deep:
    """What the sections read: launches with their counters, hot lines by the name of a kernel, and notes."""

    launches: list[Launch] = field(default_factory=list)
    lines: dict[str, tuple[HotLine, ...]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


class _Session:
    """One candidate and workload; every pass starts the profiler anew, and compiled kernels are kept between them."""

    def __init__(self, found: str, folder: str, order: Mapping[str, Any], environment: Mapping[str, str]) -> None:
        self._ncu, self._folder, self._order, self._environment = found, folder, order, environment
        self._ours: tuple[str, ...] = ()

    def tool(self) -> str:
        """The profiler's name and version."""
        return ncu.describe_tool(self._ncu, self._environment.get("PATH", os.defpath))

    def read(self, wanted: Pass, limit_s: float) -> Reading:
        """The launches of the profiled call with the wanted counters."""
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
        notes = [_CUT] if not wanted.kernels and len(launches) > ncu.MOST_LAUNCHES else []
        launches = launches if wanted.kernels else launches[: ncu.MOST_LAUNCHES]
        notes += missing(finished)
        left = len(set(wanted.metrics) - set(asked))
        if left:
            notes.append(f"{left} counter(s) are not known for this GPU: what they say is left out")
        passes = [int(count) for launch in launches if (count := value(launch, metrics.PASSES)) is not None]
        return Reading(launches, notes, max(passes, default=None))

    def add_pipes(self, launches: Sequence[Launch], limit_s: float) -> list[str]:
        """Read how busy the instruction pipes are in another process's call, into the launches of the first; notes."""
        try:
            found = self.read(Pass((metrics.DURATION, *metrics.PIPES)), limit_s)
        except (ProfileUnavailable, CandidateFault) as problem:
            # The candidate went through the first pass: what it lacks now is time, or what the profiler takes.
            return [f"instruction pipes are left out: {problem}"]
        if list(map(_launched, found.launches)) != list(map(_launched, launches)):
            return ["instruction pipes are left out: in another process run() launched otherwise"]
        for launch, again in zip(launches, found.launches, strict=True):
            launch.values.update({name: again.values.get(name) for name in metrics.PIPES})
        return list(found.notes)

    def look_into(self, wish: ProfileWish, launches: Sequence[Launch], until: float) -> Deep:
        """The sections of the longest kernels, of the longest first, as far as time allows."""
        hot = hottest(launches, MOST_DEEP_KERNELS, DEEP_SHARE)
        named = [name for name in hot if ncu.plain(name)]
        deep = Deep()
        if len(named) < len(hot):
            deep.notes.append(f"{len(hot) - len(named)} kernel(s) not looked into: their names cannot be asked for")
        if not named:
            return deep
        deep.notes.append(COLD)
        try:
            for look in looks(launches, named, self._ours):
                self._count(wish, look, deep, until)
                self._sample(wish, look, deep, until)
        except (ProfileUnavailable, CandidateFault) as problem:
            # The candidate went through the first pass: what it lacks now is time, or what the profiler takes.
            deep.notes.append(f"sections are left out: {problem}")
        if _counters(wish):
            deep.notes += left_out(named, {launch.function for launch in deep.launches}, "counters of sections")
        if "source" in wish.sections:
            deep.notes += left_out(named, deep.lines, "lines of solution.py")
        return deep

    def _count(self, wish: ProfileWish, look: Look, deep: Deep, until: float) -> None:
        """Read the counters of the sections wished for, where any of them are counters."""
        counters = _counters(wish)
        if counters:
            found = self.read(self._pass(look, metrics=(metrics.DURATION, *counters)), _left(until))
            deep.notes += [note for note in found.notes if note not in deep.notes]
            deep.launches += [launch for launch in found.launches if launch.function in look.kernels]

    def _sample(self, wish: ProfileWish, look: Look, deep: Deep, until: float) -> None:
        """Read the hot lines, where the section `source` is wished for."""
        if "source" in wish.sections:
            progress, finished = self._run(self._pass(look, source=True), _left(until))
            require_done(progress, finished, _left(until))
            deep.notes += [note for note in missing(finished) if note not in deep.notes]
            found = read_hot_lines(finished.output)
            deep.lines |= {name: lines for name, lines in found.items() if name in look.kernels}

    def _pass(self, look: Look, **read: Any) -> Pass:
        return Pass(**read, kernels=self._with_ours(look.kernels), cold=True, most_launches=look.launches)

    def _with_ours(self, kernels: tuple[str, ...]) -> tuple[str, ...]:
        return (*kernels, *(name for name in self._ours if ncu.plain(name) and name not in kernels))

    def _run(self, wanted: Pass, limit_s: float) -> tuple[Progress, Finished]:
        argv = ncu.command_line(self._ncu, wanted)
        environment = ncu.tool_environment(self._environment, self._order["scratch"])
        return run_target(argv, self._order, environment, self._folder, limit_s)


def _counters(wish: ProfileWish) -> tuple[str, ...]:
    """The counters of the sections wished for; none where those are not counters."""
    sections = [metrics.SECTION_METRICS[name] for name in wish.sections if name in metrics.SECTION_METRICS]
    return tuple(dict.fromkeys(name for section in sections for name in section))


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


def _launched(launch: Launch) -> tuple[str, tuple[int, ...], tuple[int, ...]]:
    return launch.name, launch.grid, launch.block


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
