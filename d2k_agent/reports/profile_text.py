"""A profile in words: one line a kernel, the slowest first, and what its numbers are not."""

from __future__ import annotations

from collections.abc import Sequence

from d2k_agent.contract import KernelProfile, Profile
from d2k_agent.reports.tables import table

MOST_KERNELS = 12
MOST_NAME_CHARS = 48
HEADER = ("kernel", "share", "us", "launches", "SM %", "tensor %", "DRAM %", "L2 hit %", "occupancy %", "limited by")
RIGHT = HEADER[1:9]
NO_LATENCY = (
    "The profiler runs one kernel at a time and replays it: these durations show where the time goes inside a call, "
    "they are no latency. What counts is what submit measures."
)


def profile_text(profile: Profile) -> str:
    """The kernels of one call of run() by share of its time, at most MOST_KERNELS of them, the rest summed up.

    Bounded in length whatever the kernels are called; holds no paths and no machine's name.
    """
    kernels = sorted(profile.kernels, key=lambda kernel: -kernel.duration_us)
    shown, rest = kernels[:MOST_KERNELS], kernels[MOST_KERNELS:]
    rows = [_row(kernel) for kernel in shown]
    if rest:
        rows.append(_rest(rest))
    head = f"Profile of one call of run() on {profile.workload}, by {profile.tool}: {_launches(kernels)} of "
    lines = [
        head + f"{len(kernels)} kernel(s), {_us(profile.duration_us)} us in all.",
        "",
        table(HEADER, rows, RIGHT),
    ]
    stalls = [f"  {_name(kernel)}: {_stall(kernel)}" for kernel in shown if kernel.main_stall is not None]
    if stalls:
        lines += ["", "Why warps wait most, in percent of their time:", *stalls]
    lines += ["", *[f"Note: {note}" for note in profile.notes], NO_LATENCY]
    return "\n".join(lines)


def _row(kernel: KernelProfile) -> tuple[str, ...]:
    return (
        _name(kernel),
        f"{kernel.share:.1%}",
        _us(kernel.duration_us),
        f"{kernel.launches:,}",
        _percent(kernel.sm_percent),
        _percent(kernel.tensor_percent),
        _percent(kernel.dram_percent),
        _percent(kernel.l2_hit_percent),
        _percent(kernel.occupancy_percent),
        _limit(kernel),
    )


def _rest(kernels: Sequence[KernelProfile]) -> tuple[str, ...]:
    share, duration_us = (sum(values) for values in zip(*((k.share, k.duration_us) for k in kernels), strict=True))
    launches = f"{sum(kernel.launches for kernel in kernels):,}"
    return (f"{len(kernels)} more kernel(s)", f"{share:.1%}", _us(duration_us), launches, *["-"] * 6)


def _name(kernel: KernelProfile) -> str:
    name = " ".join(kernel.name.split())
    return name if len(name) <= MOST_NAME_CHARS else name[: MOST_NAME_CHARS - 3] + "..."


def _limit(kernel: KernelProfile) -> str:
    registers = "" if kernel.registers is None else f" ({kernel.registers} registers a thread)"
    return f"{kernel.occupancy_limiter or '-'}{registers}"


def _stall(kernel: KernelProfile) -> str:
    share = "" if kernel.main_stall_percent is None else f", {kernel.main_stall_percent:.0f} %"
    return f"{kernel.main_stall}{share}"


def _launches(kernels: Sequence[KernelProfile]) -> str:
    return f"{sum(kernel.launches for kernel in kernels):,} launch(es)"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def _us(value: float) -> str:
    return f"{value:,.1f}"
