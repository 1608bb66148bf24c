"""From the counters of every launch to a line a kernel: time share, throughputs, occupancy limiter, main stall."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from d2k_agent.contract.profile import KernelProfile, Profile
from d2k_agent.evaluator.profiling import metrics
from d2k_agent.evaluator.profiling.table import Launch
from d2k_agent.evaluator.profiling.unavailable import ProfileUnavailable

MAX_NAME_CHARS = 200


def digest(launches: Sequence[Launch], workload: str, tool: str, notes: Iterable[str] = ()) -> Profile:
    """The profile of one call of run(), its kernels by share of the time.

    Raises ProfileUnavailable where no launch has a duration.
    """
    timed = [launch for launch in launches if _weight(launch) > 0]
    if not timed:
        raise ProfileUnavailable("the profiler reported kernels without their durations; try again")
    told = list(notes)
    if len(timed) < len(launches):
        told.append(f"{len(launches) - len(timed)} launch(es) without a duration were left out")
    total_ns = sum(_weight(launch) for launch in timed)
    names = dict.fromkeys(launch.function for launch in timed)
    kernels = [_kernel([launch for launch in timed if launch.function == name], total_ns) for name in names]
    kernels.sort(key=lambda kernel: -kernel.duration_us)
    return Profile(workload, tool, tuple(kernels), total_ns / 1e3, tuple(told))


def value(launch: Launch, metric: str) -> float | None:
    """A launch's value of a metric, under its name or the label that stands for it; None where there is none."""
    found = launch.values.get(metric)
    if found is not None:
        return found
    return next((launch.values.get(label) for label, name in metrics.LABELS.items() if name == metric), None)


def _weight(launch: Launch) -> float:
    return value(launch, metrics.DURATION) or 0.0


def _kernel(launches: Sequence[Launch], total_ns: float) -> KernelProfile:
    """All launches of one kernel: percentages weighted by duration, shape and limiter of the longest."""
    longest = max(launches, key=_weight)
    duration_ns = sum(map(_weight, launches))
    registers = [count for launch in launches if (count := value(launch, metrics.REGISTERS)) is not None]
    stall, stall_percent = _main_stall(launches)
    return KernelProfile(
        name=longest.function[:MAX_NAME_CHARS],
        launches=len(launches),
        duration_us=duration_ns / 1e3,
        share=duration_ns / total_ns,
        grid=longest.grid,
        block=longest.block,
        registers=int(max(registers)) if registers else None,
        sm_percent=_mean(launches, metrics.SM),
        tensor_percent=_mean(launches, metrics.TENSOR),
        dram_percent=_mean(launches, metrics.DRAM),
        l2_hit_percent=_mean(launches, metrics.L2_HIT),
        occupancy_percent=_mean(launches, metrics.OCCUPANCY),
        occupancy_limiter=_limiter(longest),
        main_stall=stall,
        main_stall_percent=stall_percent,
    )


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
