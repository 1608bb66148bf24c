"""A profile in words: what bounds the call, one line a kernel, the slowest first, and what its numbers are not."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from d2k_agent.contract import KernelProfile, Profile
from d2k_agent.reports.profile_findings import call_line, diagnosis_text, hot_line_lines, section_lines
from d2k_agent.reports.tables import table

MOST_KERNELS = 12
MOST_NAME_CHARS = 48
PERCENTS: tuple[tuple[str, Callable[[KernelProfile], float | None]], ...] = (
    ("SM %", lambda kernel: kernel.sm_percent),
    ("tensor %", lambda kernel: kernel.tensor_percent),
    ("DRAM %", lambda kernel: kernel.dram_percent),
    ("L2 %", lambda kernel: kernel.l2_percent),
    ("L2 hit %", lambda kernel: kernel.l2_hit_percent),
    ("shared %", lambda kernel: kernel.shared_percent),
    ("pipe %", lambda kernel: kernel.pipe_percent),
    ("occupancy %", lambda kernel: kernel.occupancy_percent),
)
"""Columns, each told where a kernel has it: a profile reads what was asked for."""
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
    columns = percents_of(kernels)
    rows = [_row(kernel, columns) for kernel in shown]
    if rest:
        rows.append(_rest(rest, len(columns)))
    header = ("kernel", "share", "us", "launches", *(title for title, _ in columns), "limited by")
    head = f"Profile of one call of run() on {profile.workload}, by {profile.tool}: {_launches(kernels)} of "
    lines = [
        head + f"{len(kernels)} kernel(s), {_us(profile.duration_us)} us in all.",
        *filter(None, [call_line(profile)]),
        "",
        table(header, rows, header[1:-1]),
    ]
    lines += _found("What bounds them:", [(kernel, _bounded(kernel)) for kernel in shown if kernel.diagnosis])
    stalls = [(kernel, _stall(kernel)) for kernel in shown if kernel.main_stall is not None]
    lines += _found("Why warps wait most, in percent of their time:", stalls)
    told = [line for kernel in shown for line in (*section_lines(kernel, profile.sections), *hot_line_lines(kernel))]
    lines += ["", *(f"  {' '.join(line.split())}" for line in told)] if told else []
    lines += ["", *[f"Note: {note}" for note in profile.notes], NO_LATENCY]
    return "\n".join(lines)


def percents_of(kernels: Sequence[KernelProfile]) -> list[tuple[str, Callable[[KernelProfile], float | None]]]:
    """The columns of percentages that any kernel has."""
    return [(title, percent) for title, percent in PERCENTS if any(percent(kernel) is not None for kernel in kernels)]


def _found(title: str, items: Sequence[tuple[KernelProfile, str]]) -> list[str]:
    return ["", title, *[f"  {_name(kernel)}: {text}" for kernel, text in items]] if items else []


def _bounded(kernel: KernelProfile) -> str:
    assert kernel.diagnosis is not None
    waves = "" if kernel.waves is None else f"; {kernel.waves:.2f} waves of blocks"
    return diagnosis_text(kernel.diagnosis) + waves


def _row(
    kernel: KernelProfile, columns: Sequence[tuple[str, Callable[[KernelProfile], float | None]]]
) -> tuple[str, ...]:
    return (
        _name(kernel),
        f"{kernel.share:.1%}",
        _us(kernel.duration_us),
        f"{kernel.launches:,}",
        *(_percent(percent(kernel)) for _, percent in columns),
        _limit(kernel),
    )


def _rest(kernels: Sequence[KernelProfile], columns: int) -> tuple[str, ...]:
    share, duration_us = (sum(values) for values in zip(*((k.share, k.duration_us) for k in kernels), strict=True))
    launches = f"{sum(kernel.launches for kernel in kernels):,}"
    return (f"{len(kernels)} more kernel(s)", f"{share:.1%}", _us(duration_us), launches, *["-"] * (columns + 1))


def _name(kernel: KernelProfile) -> str:
    name = " ".join(kernel.title.split())
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
