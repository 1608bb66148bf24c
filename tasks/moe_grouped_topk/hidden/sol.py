"""Counts of one call, by workload: no count is measured, and no agent sees what the best known algorithm needs.

There is no matrix product, and bytes are all that is counted. The best known kernel is far from them, because it waits.
Profiled on an H200 (2026-11-30, ncu 2025.3.1, 16384 tokens, 24 programs an SM) it issues in 26 % of the cycles and
keeps 5 % of DRAM busy; 65 % of the samples stand at the first use of a row's logits, and 47 % of the stalls wait for
memory. Its time there hardly changes with programs and rows: 48.4 to 49.3 us for the best six of 24 combinations.

By count a row is k rounds of two reductions across a warp, each needing the one before. In machine code for sm_90
(Triton 3.6) a row of 256 experts in groups has 626 instructions, of 384 experts 753, of 160 experts 527. A warp by
itself stalls 1216, 1553 and 1638 cycles for them by their encoding, and waits 64, 61 and 47 times for a reduction, a
shuffle or memory besides. Issued one a cycle they would take 10, 6 and 2 us at the large workloads, two to four times
what the bytes do, so the bytes are no floor that is reached this way. With 128 tokens there is one row's chain, its
trips to memory, and a kernel's start and end.
"""


def reference_flops(workload):
    """No matrix product."""
    return {}


def reference_bytes(workload):
    """fp32 logits of all rows and whatever the best known algorithm needs beside logits."""
    return 4 * workload["tokens"] * workload["experts"] + _beside_logits(workload)


def best_flops(workload):
    """No matrix product."""
    return {}


def best_bytes(workload):
    """Logits of padding rows are not read."""
    return 4 * workload["num_valid"] * workload["experts"] + _beside_logits(workload)


def _beside_logits(workload):
    """fp32 bias, int32 num_valid and loads read; fp32 weights and int32 ids of all rows and the loads written."""
    return 4 * workload["experts"] + 4 + 8 * workload["tokens"] * workload["topk"] + 8 * workload["experts"]
