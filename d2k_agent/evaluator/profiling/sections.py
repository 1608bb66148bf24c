"""Which runs of the profiler look into the longest kernels, and what is said of what they left out."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from d2k_agent.evaluator.profiling.table import Launch

MOST_LAUNCHES = 16
"""Launches of a kernel that are looked into: its first ones."""
COLD = (
    "counters of sections and hot lines are read with caches emptied before each replay: what an earlier kernel left "
    "in them comes from DRAM there"
)


@dataclass(frozen=True)
class Look:
    """One run of the profiler: the kernels that it looks into, and how many of the launches that bear the names."""

    kernels: tuple[str, ...]
    launches: int


def looks(launches: Sequence[Launch], kernels: Sequence[str], ours: Sequence[str]) -> list[Look]:
    """The runs that look into every one of `kernels`: a single one where few launches bear the names, else one each.

    The profiler counts launches in the order of the call, those that bear the name of a kernel of `ours` as well, since
    that is profiled in every run: a kernel that is launched often would use the count up before another's turn.
    """
    together = [launch for launch in launches if _called(launch) in {*kernels, *ours}]
    if len(together) <= MOST_LAUNCHES:
        return [Look(tuple(kernels), len(together))]
    return [Look((name,), _until_last(launches, name, ours)) for name in kernels]


def _until_last(launches: Sequence[Launch], name: str, ours: Sequence[str]) -> int:
    """The place of the last launch to look into among those that the profiler counts."""
    counted = [_called(launch) for launch in launches if _called(launch) in {name, *ours}]
    places = [place for place, called in enumerate(counted, start=1) if called == name]
    return places[:MOST_LAUNCHES][-1]


def _called(launch: Launch) -> str:
    """The name that the profiler's filter sees: without namespaces."""
    return launch.function.rpartition("::")[2]


def left_out(kernels: Sequence[str], found: Collection[str], what: str) -> list[str]:
    """A note that names the kernels for which `what` was asked and not found; none where all have it."""
    without = [name for name in kernels if name not in found]
    return [f"no {what} for {', '.join(without)}: the profiler told none"] if without else []


def several_passes(passes: int | None) -> list[str]:
    """A note where the first counters, which are those of the call, were not read in one pass (None: not told)."""
    if passes is None or passes == 1:
        return []
    told = f"each kernel ran {passes} times for its counters, and found its data in the cache from the second time on"
    return [f"{told}: DRAM and L2 percentages of what fits into the cache say little"]
