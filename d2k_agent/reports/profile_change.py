"""A profile beside an earlier one of the same workload, in words of time and of the main percentages."""

from __future__ import annotations

from collections.abc import Callable

from d2k_agent.contract import KernelProfile, Profile

MOST_KERNELS = 3
_PERCENTS: tuple[tuple[str, Callable[[KernelProfile], float | None]], ...] = (
    ("tensor", lambda kernel: kernel.tensor_percent),
    ("DRAM", lambda kernel: kernel.dram_percent),
    ("L2", lambda kernel: kernel.l2_percent),
    ("occupancy", lambda kernel: kernel.occupancy_percent),
)


def change_text(now: Profile, before: Profile, whose: str) -> str:
    """What changed against `whose` profile: kernel time, percentages over all kernels, the kernels that changed most.

    A number that either profile lacks is left out.
    """
    if now.workload != before.workload:
        return f"No comparison with {whose}: that is a profile of {before.workload}, not of {now.workload}."
    told = [f"kernel time {_us(before.duration_us)} -> {_us(now.duration_us)} us{_relative(before, now)}"]
    for name, percent in _PERCENTS:
        then, this = _mean(before, percent), _mean(now, percent)
        if then is not None and this is not None:
            told.append(f"{name} {then:.1f} -> {this:.1f} %")
    if before.diagnosis and now.diagnosis and before.diagnosis.bottleneck != now.diagnosis.bottleneck:
        told.append(f"bounded by {before.diagnosis.bottleneck} -> {now.diagnosis.bottleneck}")
    return f"Against {whose}: {', '.join(told + _kernels(now, before))}."


def not_profiled(now: Profile, whose: str) -> str:
    """That there is nothing to set a profile against."""
    return f"No comparison: {whose} was not profiled on {now.workload}."


def _kernels(now: Profile, before: Profile) -> list[str]:
    """The kernels whose time changed most, those that came and went included."""
    then, this = _times(before), _times(now)
    names = sorted({*then, *this}, key=lambda name: (-abs(this.get(name, 0.0) - then.get(name, 0.0)), name))
    if names == list(then) and len(names) == 1:
        return []
    return [f"{name} {_of(then, name)} -> {_of(this, name)}" for name in names[:MOST_KERNELS]]


def _times(profile: Profile) -> dict[str, float]:
    """Microseconds of each name, in all its rows: one profile may tell its shapes apart and the other not."""
    times: dict[str, float] = {}
    for kernel in profile.kernels:
        times[kernel.name] = times.get(kernel.name, 0.0) + kernel.duration_us
    return times


def _of(times: dict[str, float], name: str) -> str:
    return f"{_us(times[name])} us" if name in times else "none"


def _relative(before: Profile, now: Profile) -> str:
    return f" ({100 * (now.duration_us / before.duration_us - 1):+.1f} %)" if before.duration_us > 0 else ""


def _mean(profile: Profile, percent: Callable[[KernelProfile], float | None]) -> float | None:
    known = [(kernel.duration_us, found) for kernel in profile.kernels if (found := percent(kernel)) is not None]
    total = sum(weight for weight, _ in known)
    return sum(weight * found for weight, found in known) / total if total > 0 else None


def _us(value: float) -> str:
    return f"{value:.1f}"
