"""Which counters are asked for, by Nsight Compute's names, and what they are called in plain words.

LIGHT is read for every launch: single hardware counters, few enough to be read in one pass, and what is known of a
launch without any. PIPES are read for every launch as well, in a run of their own: with them a launch runs three times
for its counters (on an H200), and how full DRAM and L2 were would be read where an earlier pass left its data in the
cache. The sections are for the kernels that hold most of the time.
"""

from __future__ import annotations

DURATION = "gpu__time_duration.sum"
SM = "sm__throughput.avg.pct_of_peak_sustained_elapsed"
TENSOR = "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed"
DRAM = "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed"
L2 = "lts__throughput.avg.pct_of_peak_sustained_elapsed"
L2_SECTORS = "lts__t_sectors_srcunit_tex.avg.pct_of_peak_sustained_elapsed"
"""A single counter that stands for L2 where L2's throughput, the busiest of several, was not asked for: what the SMs
draw. The count of all sectors could not reach its peak, which holds a third for the traffic between the cache's halves.
"""
SHARED = "l1tex__data_pipe_lsu_wavefronts.avg.pct_of_peak_sustained_elapsed"
"""The data pipe of shared memory and L1. Bank conflicts lengthen it; they are no more instructions for the LSU."""
L2_HIT = "lts__t_sector_hit_rate.pct"
OCCUPANCY = "sm__warps_active.avg.pct_of_peak_sustained_active"
REGISTERS = "launch__registers_per_thread"
WAVES = "launch__waves_per_multiprocessor"
MULTIPROCESSORS = "launch__sm_count"
PASSES = "profiler__replayer_passes"
"""How often the profiler ran the launch for its counters: with a table it prints no other word of that."""
SM_ACTIVE, SM_ACTIVE_MOST, SM_ELAPSED = "sm__cycles_active.avg", "sm__cycles_active.max", "sm__cycles_elapsed.max"
"""Cycles with a warp, of the SMs' mean and of the busiest SM, and all that the kernel took."""

PIPES = {
    "sm__inst_executed.avg.pct_of_peak_sustained_elapsed": "issue of instructions",
    "sm__inst_executed_pipe_alu.avg.pct_of_peak_sustained_elapsed": "ALU (integers, comparisons, bits)",
    "sm__inst_executed_pipe_fma.avg.pct_of_peak_sustained_elapsed": "FMA (float arithmetic)",
    "sm__inst_executed_pipe_fp64.avg.pct_of_peak_sustained_elapsed": "FP64 (double precision)",
    "sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_elapsed": "XU (exp, log, conversions)",
    "sm__inst_executed_pipe_lsu.avg.pct_of_peak_sustained_elapsed": "LSU (loads and stores, shared memory)",
}

LIMITERS = {
    "launch__occupancy_limit_blocks": "blocks per SM",
    "launch__occupancy_limit_registers": "registers",
    "launch__occupancy_limit_shared_mem": "shared memory",
    "launch__occupancy_limit_warps": "warps",
}

STALLS = {
    "barrier": "barrier (waiting for the other warps of the block)",
    "branch_resolving": "branch resolving (waiting for a branch target)",
    "dispatch_stall": "dispatch stall (the dispatcher holds an issued instruction back)",
    "drain": "drain (waiting for stores at the end of the kernel)",
    "gmma": "gmma (waiting for asynchronous matrix products)",
    "imc_miss": "constant cache miss",
    "lg_throttle": "lg throttle (too many loads and stores to global memory queued)",
    "long_scoreboard": "long scoreboard (waiting for global memory)",
    "math_pipe_throttle": "math pipe throttle (waiting for a busy arithmetic or tensor pipe)",
    "membar": "memory barrier",
    "mio_throttle": "mio throttle (the queue to shared memory and special functions is full)",
    "misc": "miscellaneous",
    "no_instruction": "no instruction (waiting for the instruction cache)",
    "not_selected": "not selected (ready, but another warp was issued: enough warps)",
    "short_scoreboard": "short scoreboard (waiting for shared memory or special functions)",
    "sleeping": "sleeping",
    "tex_throttle": "tex throttle (the texture queue is full)",
    "wait": "wait (fixed latency between dependent instructions)",
}
ISSUED = "selected"
"""Counted like a stall, but it is the warp that was issued."""


def stall_metric(reason: str) -> str:
    """The name of the counter of warps stalled for that reason, per instruction issued."""
    return f"smsp__average_warps_issue_stalled_{reason}_per_issue_active.ratio"


BASIC = (DURATION, DRAM, OCCUPANCY, REGISTERS, *LIMITERS)
"""What GPUs of every generation count, and profilers of every age know."""
LIGHT = (
    *(*BASIC, WAVES, MULTIPROCESSORS, TENSOR, L2_SECTORS, SHARED),
    *(SM_ACTIVE, SM_ACTIVE_MOST, SM_ELAPSED, PASSES),
)

MEMORY = (
    *("dram__bytes_read.sum", "dram__bytes_write.sum", L2, L2_HIT, "l1tex__t_sector_hit_rate.pct"),
    "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio",
    "smsp__sass_average_data_bytes_per_sector_mem_global_op_st.ratio",
    *("l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum", "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"),
    *("smsp__sass_inst_executed_op_local_ld.sum", "smsp__sass_inst_executed_op_local_st.sum"),
)
COMPUTE = (
    *(SM, "sm__inst_executed.avg.per_cycle_active", "smsp__thread_inst_executed_per_inst_executed.ratio"),
    "sm__inst_executed_pipe_tensor_op_hmma.avg.pct_of_peak_sustained_elapsed",
    "sm__inst_executed_pipe_tensor_op_gmma.avg.pct_of_peak_sustained_elapsed",
    "sm__inst_executed_pipe_uniform.avg.pct_of_peak_sustained_elapsed",
)
SCHEDULER = (
    *("smsp__issue_active.avg.pct_of_peak_sustained_active", "smsp__warps_eligible.avg.per_cycle_active"),
    *("smsp__warps_active.avg.per_cycle_active", "sm__maximum_warps_per_active_cycle_pct"),
    *map(stall_metric, (*STALLS, ISSUED)),
)
SECTION_METRICS = {"memory": MEMORY, "compute": COMPUTE, "scheduler": SCHEDULER}
"""The sections that are counters; `source` is another page of the profiler."""
SOURCE_SECTION = "SourceCounters"

LABELS = {
    "Duration": DURATION,
    "Compute (SM) Throughput": SM,
    "DRAM Throughput": DRAM,
    "L2 Cache Throughput": L2,
    "L2 Hit Rate": L2_HIT,
    "Achieved Occupancy": OCCUPANCY,
    "Registers Per Thread": REGISTERS,
    "Waves Per SM": WAVES,
    "# SMs": MULTIPROCESSORS,
    "SM Active Cycles": SM_ACTIVE,
    "Elapsed Cycles": SM_ELAPSED,
    "Block Limit SM": "launch__occupancy_limit_blocks",
    "Block Limit Registers": "launch__occupancy_limit_registers",
    "Block Limit Shared Mem": "launch__occupancy_limit_shared_mem",
    "Block Limit Warps": "launch__occupancy_limit_warps",
}
"""Labels of the details page that stand for a counter."""
