"""A profile, worded for a model: one line a finding, within a bound of tokens.

Where not all fits: rows of the kernels that hold 90 % of the time, what bounds each included, and the notes come first;
then findings of sections and hot lines, those about the largest part of the time first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from d2k_agent.config import PROFILE_TOKENS
from d2k_agent.contract import KernelProfile, Profile
from d2k_agent.contract.wording import counted
from d2k_agent.models.tokens import count_tokens
from d2k_agent.reports.brief_compile import within
from d2k_agent.reports.profile_findings import call_line, diagnosis_text, hot_line_lines, section_lines
from d2k_agent.reports.profile_text import MOST_KERNELS, MOST_NAME_CHARS, percents_of

MOST_TIME = 0.9
"""The part of the time whose kernels have a row before anything is told in detail."""


def brief_profile(profile: Profile, change: str | None = None, most_tokens: int = PROFILE_TOKENS) -> str:
    """The kernels of one call of run() by share of its time, and what bounds them; at most `most_tokens`.

    MOST_KERNELS rows at most, the other kernels summed up; how many lines of detail did not fit is said. `change` is
    what is said against an earlier profile.
    """
    kernels = sorted(profile.kernels, key=lambda kernel: -kernel.duration_us)[:MOST_KERNELS]
    details = _details(profile, kernels)
    text = "\n".join([*_head(profile, change, len(kernels)), *details])
    if count_tokens(text) <= most_tokens:
        return text
    for rows in range(_holding(kernels, MOST_TIME) if details else len(kernels), 0, -1):
        head = _head(profile, change, rows)
        for told in range(len(details), -1, -1):
            text = "\n".join([*head, *details[:told], *_left_out(len(details) - told)])
            if count_tokens(text) <= most_tokens:
                return text
    return within("\n".join(_head(profile, change, 1)), most_tokens)


def _head(profile: Profile, change: str | None, rows: int) -> list[str]:
    """What bounds the call, the change, a row a kernel for the `rows` longest, the others summed up, the notes."""
    kernels = sorted(profile.kernels, key=lambda kernel: -kernel.duration_us)
    launches = sum(kernel.launches for kernel in kernels)
    columns = [title.replace(" ", "") for title, _ in percents_of(kernels)]
    waves, stalls, bounds = _has(kernels)
    lines = [
        f"profile of {profile.workload} by {profile.tool}: {profile.duration_us:.1f} us, launches {launches}",
        *filter(None, [call_line(profile), change]),
        " ".join(["kernel share us launches", *columns, "regs", *["waves"] * waves])
        + "; occupancy limited by"
        + "; most waiting" * stalls
        + "; bounded by" * bounds,
        *(_kernel(kernel, kernels) for kernel in kernels[:rows]),
    ]
    if rest := kernels[rows:]:
        share, duration_us = sum(kernel.share for kernel in rest), sum(kernel.duration_us for kernel in rest)
        lines.append(f"{len(rest)} more kernels {share:.1%} {duration_us:.1f} {sum(k.launches for k in rest)}")
    return [*lines, *(f"note: {note}" for note in profile.notes)]


def _holding(kernels: Sequence[KernelProfile], share: float) -> int:
    """How many of the longest kernels hold that share of the time."""
    held = 0.0
    for count, kernel in enumerate(kernels, start=1):
        held += kernel.share
        if held >= share:
            return count
    return len(kernels)


def _details(profile: Profile, kernels: Sequence[KernelProfile]) -> list[str]:
    """Findings of sections and hot lines by the share of the call's time that they are about, the largest first."""

    def weighted() -> Iterator[tuple[float, str]]:
        for kernel in kernels:
            yield from ((kernel.share, line) for line in section_lines(kernel, profile.sections))
            hot_lines = zip(kernel.hot_lines, hot_line_lines(kernel), strict=True)
            yield from ((kernel.share * hot.share, line) for hot, line in hot_lines)

    return [line for _, line in sorted(weighted(), key=lambda item: -item[0])]


def _left_out(lines: int) -> list[str]:
    return [f"{counted(lines, 'line')} left out"] if lines else []


def _has(kernels: Sequence[KernelProfile]) -> tuple[bool, bool, bool]:
    """Whether any kernel has waves, a main stall, a diagnosis."""
    return (
        any(kernel.waves is not None for kernel in kernels),
        any(kernel.main_stall is not None for kernel in kernels),
        any(kernel.diagnosis is not None for kernel in kernels),
    )


def _kernel(kernel: KernelProfile, kernels: Sequence[KernelProfile]) -> str:
    waves, stalls, bounds = _has(kernels)
    name = "_".join(kernel.title.split())[:MOST_NAME_CHARS]
    row = [name, f"{kernel.share:.1%}", f"{kernel.duration_us:.1f}", str(kernel.launches)]
    row += ["-" if (value := percent(kernel)) is None else f"{value:.1f}" for _, percent in percents_of(kernels)]
    row.append("-" if kernel.registers is None else str(kernel.registers))
    row += ["-" if kernel.waves is None else f"{kernel.waves:.2f}"] if waves else []
    parts = [" ".join(row), kernel.occupancy_limiter or "-"]
    if stalls:
        share = "" if kernel.main_stall_percent is None else f" {kernel.main_stall_percent:.0f}%"
        parts.append(f"{kernel.main_stall or '-'}{share}")
    if bounds:
        parts.append(diagnosis_text(kernel.diagnosis) if kernel.diagnosis else "-")
    return "; ".join(parts)
