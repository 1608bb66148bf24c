"""From the counters of every launch to a line a kernel: time share, throughputs, occupancy, what bounds it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from d2k_agent.contract.profile import Bottleneck, HotLine, KernelProfile, Profile, ProfileWish
from d2k_agent.evaluator.profiling import metrics
from d2k_agent.evaluator.profiling.bottleneck import Spread, Unit, call_diagnosis, kernel_diagnosis
from d2k_agent.evaluator.profiling.table import Launch
from d2k_agent.evaluator.profiling.unavailable import ProfileUnavailable

Shape = tuple[tuple[int, ...], tuple[int, ...], float | None]
"""Grid, block and registers of a launch."""

MAX_NAME_CHARS = 200
NOTED_SHARE = 0.1
"""Shapes are counted for kernels with this part of the time, not for shorter ones."""


def digest(
    launches: Sequence[Launch],
    workload: str,
    tool: str,
    notes: Iterable[str] = (),
    deeper: Sequence[Launch] = (),
    lines: Mapping[str, tuple[HotLine, ...]] | None = None,
    wish: ProfileWish | None = None,
) -> Profile:
    """The profile of one call of run(), its kernels by share of the time.

    `launches` are all of the call; `deeper` some of them again with the counters of the sections that `wish` names,
    and `lines` the hot lines by the name of a kernel. Raises ProfileUnavailable where no launch has a duration.
    """
    timed = [launch for launch in launches if _weight(launch) > 0]
    if not timed:
        raise ProfileUnavailable("the profiler reported kernels without their durations; try again")
    told = list(notes)
    if len(timed) < len(launches):
        told.append(f"{len(launches) - len(timed)} launch(es) without a duration were left out")
    total_ns = sum(_weight(launch) for launch in timed)
    kernels = []
    for name, own in _by_name(timed).items():
        again = [launch for launch in deeper if launch.function == name and _weight(launch) > 0]
        # Hot lines are counted by the name: they stand at the row that has most of the time.
        hot_lines = (lines or {}).get(name, ())
        for row in sorted(_rows(own, again, total_ns), key=lambda row: -row.duration_us):
            kernels.append(replace(row, hot_lines=hot_lines))
            hot_lines = ()
    kernels.sort(key=lambda kernel: -kernel.duration_us)
    wish = wish or ProfileWish()
    call_us = None if wish.call_ms is None else wish.call_ms * 1e3
    filled_us = None if wish.call_mhz is None else _at_clock_us(timed, wish.call_mhz)
    diagnosis = call_diagnosis(kernels, filled_us or total_ns / 1e3, call_us, same_clock=filled_us is not None)
    told += _of_several_shapes(kernels, timed)
    return Profile(workload, tool, tuple(kernels), total_ns / 1e3, tuple(told), wish.sections, call_us, diagnosis)


def hottest(launches: Sequence[Launch], most: int, share: float) -> list[str]:
    """The names of the longest kernels in order: as many as hold `share` of the time, `most` at most."""
    times = {name: sum(map(_weight, own)) for name, own in _by_name(launches).items()}
    total, held, names = sum(times.values()), 0.0, []
    for name in sorted(times, key=lambda name: -times[name])[:most]:
        if total and held / total >= share:
            break
        names.append(name)
        held += times[name]
    return names


def value(launch: Launch, metric: str) -> float | None:
    """A launch's value of a metric, under its name or the label that stands for it; None where there is none."""
    found = launch.values.get(metric)
    if found is not None:
        return found
    return next((launch.values.get(label) for label, name in metrics.LABELS.items() if name == metric), None)


def _by_name(launches: Sequence[Launch]) -> dict[str, list[Launch]]:
    found: dict[str, list[Launch]] = {}
    for launch in launches:
        found.setdefault(launch.function, []).append(launch)
    return found


def _by_shape(launches: Sequence[Launch]) -> dict[Shape, list[Launch]]:
    found: dict[Shape, list[Launch]] = {}
    for launch in launches:
        found.setdefault(_shape(launch), []).append(launch)
    return found


def _shape(launch: Launch) -> Shape:
    return launch.grid, launch.block, value(launch, metrics.REGISTERS)


def _of_several_shapes(kernels: Sequence[KernelProfile], launches: Sequence[Launch]) -> list[str]:
    """A note that names the kernels that count and whose row is the mean of several shapes."""
    shapes = {name: len(_by_shape(own)) for name, own in _by_name(launches).items()}
    several = [kernel for kernel in kernels if kernel.share >= NOTED_SHARE and not kernel.one_shape]
    counts = {kernel.name: shapes.get(kernel.name, 1) for kernel in several}
    told = ", ".join(f"{name} ({count})" for name, count in counts.items() if count > 1)
    return [f"launches of several shapes are one row, percentages their means: {told}"] if told else []


def _rows(launches: Sequence[Launch], again: Sequence[Launch], total_ns: float) -> list[KernelProfile]:
    """The launches of one name as one row, or as one a shape where shapes that count are not bounded alike: then no
    mean tells of any of them.
    """
    shapes = [
        (own, [launch for launch in again if _shape(launch) == shape]) for shape, own in _by_shape(launches).items()
    ]
    rows = [_kernel(own, deeper, total_ns) for own, deeper in shapes]
    counting = [row.diagnosis and row.diagnosis.bottleneck for row in rows if row.share >= NOTED_SHARE]
    if len(set(counting)) > 1:
        return [replace(row, one_shape=True) for row in rows]
    return [_kernel(launches, again, total_ns)]


def _at_clock_us(launches: Sequence[Launch], mhz: float) -> float | None:
    """How long the launches take at that clock of the multiprocessors, at least as long as they took here; None where
    one does not tell its cycles.
    """
    cycles = [value(launch, metrics.SM_ELAPSED) for launch in launches]
    if None in cycles:
        return None
    return sum(max(_weight(launch) / 1e3, (own or 0.0) / mhz) for launch, own in zip(launches, cycles, strict=True))


def _weight(launch: Launch) -> float:
    return value(launch, metrics.DURATION) or 0.0


def _kernel(launches: Sequence[Launch], again: Sequence[Launch], total_ns: float) -> KernelProfile:
    """All launches of one kernel: percentages weighted by duration, shape and limiter of the longest.

    What only a section counts comes from the launches that were looked into `again`.
    """
    longest = max(launches, key=_weight)
    duration_ns = sum(map(_weight, launches))
    registers = [count for launch in launches if (count := value(launch, metrics.REGISTERS)) is not None]

    def mean(metric: str) -> float | None:
        found = _mean(launches, metric)
        return _mean(again, metric) if found is None else found

    stall, stall_percent = _main_stall(again or launches)
    sm_percent, occupancy = mean(metrics.SM), mean(metrics.OCCUPANCY)
    # From the launches of the call alone: a section's counters are of cold caches, and of a few launches.
    units, spread = _units(lambda metric: _mean(launches, metric)), _spread(launches, longest)
    percents = {unit.bottleneck: unit.percent for unit in units}
    pipe = next(unit for unit in units if unit.bottleneck is Bottleneck.PIPE)
    sections = [name for names in metrics.SECTION_METRICS.values() for name in names]
    return KernelProfile(
        name=longest.function[:MAX_NAME_CHARS],
        launches=len(launches),
        duration_us=duration_ns / 1e3,
        share=duration_ns / total_ns,
        grid=longest.grid,
        block=longest.block,
        registers=int(max(registers)) if registers else None,
        sm_percent=sm_percent,
        tensor_percent=percents[Bottleneck.TENSOR],
        dram_percent=percents[Bottleneck.DRAM],
        l2_hit_percent=mean(metrics.L2_HIT),
        occupancy_percent=occupancy,
        occupancy_limiter=_limiter(longest),
        main_stall=stall,
        main_stall_percent=stall_percent,
        l2_percent=percents[Bottleneck.L2],
        pipe_percent=pipe.percent,
        pipe=metrics.PIPES.get(pipe.counter) if pipe.percent is not None else None,
        waves=spread.waves,
        diagnosis=kernel_diagnosis(units, sm_percent, spread, occupancy),
        shared_percent=percents[Bottleneck.SHARED],
        section_launches=len(again) or None,
        counters={name: found for name in sections if (found := _mean(again, name)) is not None},
    )


def _units(mean: Callable[[str], float | None]) -> list[Unit]:
    """The units whose busy part tells what bounds a kernel, of the pipes the busiest."""
    # L2's throughput holds the traffic to DRAM as well: beside DRAM's it would name L2 for most that DRAM bounds.
    l2 = metrics.L2_SECTORS if mean(metrics.L2_SECTORS) is not None else metrics.L2
    pipes = [(found, name) for name in metrics.PIPES if (found := mean(name)) is not None]
    percent, pipe = max(pipes, default=(None, next(iter(metrics.PIPES))))
    return [
        Unit(Bottleneck.TENSOR, metrics.TENSOR, mean(metrics.TENSOR)),
        Unit(Bottleneck.DRAM, metrics.DRAM, mean(metrics.DRAM)),
        Unit(Bottleneck.L2, l2, mean(l2)),
        Unit(Bottleneck.SHARED, metrics.SHARED, mean(metrics.SHARED)),
        Unit(Bottleneck.PIPE, pipe, percent),
    ]


def _spread(launches: Sequence[Launch], longest: Launch) -> Spread:
    multiprocessors = value(longest, metrics.MULTIPROCESSORS)
    return Spread(
        idle_percent=_lost(launches, metrics.SM_ACTIVE, metrics.SM_ELAPSED),
        uneven_percent=_lost(launches, metrics.SM_ACTIVE, metrics.SM_ACTIVE_MOST),
        blocks=math.prod(longest.grid) if longest.grid else None,
        multiprocessors=None if multiprocessors is None else int(multiprocessors),
        waves=value(longest, metrics.WAVES),
    )


def _lost(launches: Sequence[Launch], some: str, every: str) -> float | None:
    """By how many percent the cycles of `some` fall short of those of `every`, over the launches that tell both."""
    told = [(value(launch, some), value(launch, every)) for launch in launches]
    known = [(part, whole) for part, whole in told if part is not None and whole]
    total = sum(whole for _, whole in known)
    return 100 * max(0.0, 1 - sum(part for part, _ in known) / total) if total else None


def _mean(launches: Sequence[Launch], metric: str) -> float | None:
    """The mean over the time of the launches that report the metric."""
    known = [(_weight(launch), found) for launch in launches if (found := value(launch, metric)) is not None]
    return sum(weight * found for weight, found in known) / sum(weight for weight, _ in known) if known else None


def _limiter(launch: Launch) -> str | None:
    """What allows the fewest blocks on an SM; several names where they allow equally few."""
    limits = {words: found for name, words in metrics.LIMITERS.items() if (found := value(launch, name)) is not None}
    least = min(limits.values(), default=None)
    return ", ".join(words for words, found in limits.items() if found == least) or None


def _main_stall(launches: Sequence[Launch]) -> tuple[str | None, float | None]:
    """Why warps did not issue most of the time, in words, and in how many percent of their time."""
    means = {
        reason: found
        for reason in (*metrics.STALLS, metrics.ISSUED)
        if (found := _mean(launches, metrics.stall_metric(reason))) is not None
    }
    total, issued = sum(means.values()), means.pop(metrics.ISSUED, None)
    if not means or issued is None or total <= 0:
        return None, None
    reason = max(means, key=means.__getitem__)
    return metrics.STALLS[reason], 100 * means[reason] / total
