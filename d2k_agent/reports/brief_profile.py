"""A profile, worded for a model: one line a finding, within a bound of tokens."""

from __future__ import annotations

from collections.abc import Sequence

from d2k_agent.config import PROFILE_TOKENS
from d2k_agent.contract import KernelProfile, Profile
from d2k_agent.models.tokens import count_tokens
from d2k_agent.reports.brief_compile import within
from d2k_agent.reports.profile_findings import call_line, diagnosis_text, hot_line_lines, section_lines
from d2k_agent.reports.profile_text import MOST_KERNELS, MOST_NAME_CHARS, percents_of


def brief_profile(profile: Profile, change: str | None = None, most_tokens: int = PROFILE_TOKENS) -> str:
    """The kernels of one call of run() by share of its time, and what bounds them; at most `most_tokens`.

    As many kernels as fit, MOST_KERNELS at most, the rest summed up. `change` is what is said against an earlier one.
    """
    kernels = sorted(profile.kernels, key=lambda kernel: -kernel.duration_us)
    for shown in range(min(MOST_KERNELS, len(kernels)), 0, -1):
        text = _told(profile, change, kernels[:shown], kernels[shown:])
        if count_tokens(text) <= most_tokens:
            return text
    return within(_told(profile, change, kernels[:1], kernels[1:]), most_tokens)


def _told(profile: Profile, change: str | None, shown: Sequence[KernelProfile], rest: Sequence[KernelProfile]) -> str:
    kernels = [*shown, *rest]
    launches = sum(kernel.launches for kernel in kernels)
    columns = [title.replace(" ", "") for title, _ in percents_of(kernels)]
    waves, stalls, bounds = _has(kernels)
    lines = [
        f"profile of {profile.workload} by {profile.tool}: {profile.duration_us:.1f} us, launches {launches}",
        *filter(None, [call_line(profile), change]),
        " ".join(["kernel share us launches", *columns, "regs", *["waves"] * waves])
        + "; limited by"
        + "; most waiting" * stalls
        + "; bounded by" * bounds,
        *(_kernel(kernel, kernels) for kernel in shown),
    ]
    if rest:
        share, duration_us = sum(kernel.share for kernel in rest), sum(kernel.duration_us for kernel in rest)
        lines.append(f"{len(rest)} more kernels {share:.1%} {duration_us:.1f} {sum(k.launches for k in rest)}")
    for kernel in shown:
        lines += [*section_lines(kernel, profile.sections), *hot_line_lines(kernel)]
    return "\n".join([*lines, *(f"note: {note}" for note in profile.notes)])


def _has(kernels: Sequence[KernelProfile]) -> tuple[bool, bool, bool]:
    """Whether any kernel has waves, a main stall, a diagnosis."""
    return (
        any(kernel.waves is not None for kernel in kernels),
        any(kernel.main_stall is not None for kernel in kernels),
        any(kernel.diagnosis is not None for kernel in kernels),
    )


def _kernel(kernel: KernelProfile, kernels: Sequence[KernelProfile]) -> str:
    waves, stalls, bounds = _has(kernels)
    name = "_".join(kernel.name.split())[:MOST_NAME_CHARS]
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
