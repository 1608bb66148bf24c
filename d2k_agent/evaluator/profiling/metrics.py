"""Which counters are asked for, by Nsight Compute's names, and what they are called in plain words."""

from __future__ import annotations

DURATION = "gpu__time_duration.sum"
SM = "sm__throughput.avg.pct_of_peak_sustained_elapsed"
TENSOR = "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed"
DRAM = "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed"
L2_HIT = "lts__t_sector_hit_rate.pct"
OCCUPANCY = "sm__warps_active.avg.pct_of_peak_sustained_active"
REGISTERS = "launch__registers_per_thread"

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


BASIC = (DURATION, SM, DRAM, L2_HIT, OCCUPANCY, REGISTERS, *LIMITERS)
"""What GPUs of every generation count."""
ALL = (*BASIC, TENSOR, *map(stall_metric, (*STALLS, ISSUED)))

LABELS = {
    "Duration": DURATION,
    "Compute (SM) Throughput": SM,
    "DRAM Throughput": DRAM,
    "L2 Hit Rate": L2_HIT,
    "Achieved Occupancy": OCCUPANCY,
    "Registers Per Thread": REGISTERS,
    "Block Limit SM": "launch__occupancy_limit_blocks",
    "Block Limit Registers": "launch__occupancy_limit_registers",
    "Block Limit Shared Mem": "launch__occupancy_limit_shared_mem",
    "Block Limit Warps": "launch__occupancy_limit_warps",
}
"""Labels of the details page that stand for a counter."""
