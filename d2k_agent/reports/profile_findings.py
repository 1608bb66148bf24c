"""What a profile found, in words: what bounds a kernel or a call and why, a section's counters, hot lines.

One line a finding. What a counter is called stands here once, for people and for models.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from d2k_agent.contract import Diagnosis, Evidence, KernelProfile, Profile
from d2k_agent.reports.tables import number, size

_PEAK = (".avg.pct_of_peak_sustained_elapsed", ".avg.pct_of_peak_sustained_active")

SECTIONS: dict[str, dict[str, tuple[str, str]]] = {
    "memory": {
        "dram__bytes_read.sum": ("DRAM read a launch", "bytes"),
        "dram__bytes_write.sum": ("written", "bytes"),
        "lts__throughput.avg.pct_of_peak_sustained_elapsed": ("L2 busy", "%"),
        "lts__t_sector_hit_rate.pct": ("L2 hit", "%"),
        "l1tex__t_sector_hit_rate.pct": ("L1 hit", "%"),
        "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio": ("bytes used of each 32 loaded", ""),
        "smsp__sass_average_data_bytes_per_sector_mem_global_op_st.ratio": ("bytes used of each 32 stored", ""),
        "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum": ("bank conflicts in shared memory", ""),
        "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum": ("accesses (wavefronts) there", ""),
        "smsp__sass_inst_executed_op_local_ld.sum": ("loads from local memory (spills)", ""),
        "smsp__sass_inst_executed_op_local_st.sum": ("stores to local memory (spills)", ""),
    },
    "compute": {
        "sm__throughput.avg.pct_of_peak_sustained_elapsed": ("SM busy", "%"),
        "sm__inst_executed.avg.per_cycle_active": ("instructions a cycle", ""),
        "smsp__thread_inst_executed_per_inst_executed.ratio": ("threads an instruction", ""),
        "sm__inst_executed_pipe_tensor_op_hmma.avg.pct_of_peak_sustained_elapsed": ("HMMA issue", "%"),
        "sm__inst_executed_pipe_tensor_op_gmma.avg.pct_of_peak_sustained_elapsed": ("GMMA issue", "%"),
        "sm__inst_executed_pipe_uniform.avg.pct_of_peak_sustained_elapsed": ("uniform pipe", "%"),
    },
    "scheduler": {
        "smsp__issue_active.avg.pct_of_peak_sustained_active": ("cycles with an instruction issued", "%"),
        "smsp__warps_eligible.avg.per_cycle_active": ("warps ready a scheduler", ""),
        "smsp__warps_active.avg.per_cycle_active": ("warps there a scheduler", ""),
        "sm__maximum_warps_per_active_cycle_pct": ("occupancy that the launch allows", "%"),
    },
}
"""Of each section the counters that are told, in words, and their unit. What is 0 is left out."""
STALLS_TOLD = 3
_STALL, _STALL_END = "smsp__average_warps_issue_stalled_", "_per_issue_active.ratio"


def diagnosis_text(diagnosis: Diagnosis) -> str:
    """What bounds, and the counters with their values that decide it."""
    return f"{diagnosis.bottleneck} ({'; '.join(map(_evidence, diagnosis.evidence))})"


def _evidence(evidence: Evidence) -> str:
    counter = evidence.counter
    for ending in _PEAK:
        counter = counter.removesuffix(ending)
    told = f"{counter} {evidence.percent:.1f} %"
    if evidence.limit is None:
        return told
    return f"{told} {'<' if evidence.below else '>='} {evidence.limit:g} %"


def section_lines(kernel: KernelProfile, sections: Sequence[str]) -> Iterator[str]:
    """A line a section: what its counters say of the kernel, and of how many launches where not of all."""
    few = kernel.section_launches is not None and kernel.section_launches < kernel.launches
    of = f" (means over {kernel.section_launches} of {kernel.launches} launches)" if few else ""
    for section in sections:
        found = [
            _counted(words, unit, kernel.counters[name])
            for name, (words, unit) in SECTIONS.get(section, {}).items()
            if kernel.counters.get(name)
        ]
        if section == "scheduler":
            found += _stalls(kernel)
        if found:
            yield f"{kernel.title} {section}{of}: {', '.join(found)}"


def hot_line_lines(kernel: KernelProfile) -> Iterator[str]:
    """A line for each line of the candidate that holds samples of the kernel."""
    for hot in kernel.hot_lines:
        stall = f", {hot.stall}" if hot.stall else ""
        text = f" | {hot.text}" if hot.text else ""
        yield f"{kernel.title} line {hot.line}: {hot.share:.0%} of its samples{stall}{text}"


def call_line(profile: Profile) -> str | None:
    """What bounds the call; None where the profile does not say."""
    if profile.diagnosis is None:
        return None
    latency = "" if profile.call_us is None else f", measured latency of the call {profile.call_us:.1f} us"
    return f"The call is bounded by {diagnosis_text(profile.diagnosis)}{latency}"


def _counted(words: str, unit: str, value: float) -> str:
    if unit == "bytes":
        return f"{words} {size(round(value))}"
    told = f"{value:,.0f}" if value >= 1000 else number(value)
    return f"{words} {told}{' %' * (unit == '%')}"


def _stalls(kernel: KernelProfile) -> Iterator[str]:
    """The most frequent reasons for which warps wait, in cycles for each instruction that is issued."""
    found = {
        name.removeprefix(_STALL).removesuffix(_STALL_END): value
        for name, value in kernel.counters.items()
        if name.startswith(_STALL) and value
    }
    found.pop("selected", None)
    for reason in sorted(found, key=lambda reason: -found[reason])[:STALLS_TOLD]:
        yield f"waits for {reason.replace('_', ' ')} {number(found[reason])} cycles an instruction"
