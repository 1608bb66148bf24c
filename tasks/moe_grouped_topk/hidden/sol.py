"""Counts of one call, by workload: nothing here is measured, and no agent sees what the best known algorithm needs.

There is no matrix product, and bytes are all that is counted. The best known kernel takes ten times as long as they
do and more. It is bound by the instructions that it issues: a row is k rounds of two reductions across a warp, each
waiting for the one before, some 600 instructions for 256 experts, mostly on integers, which run at half rate; the row's
kibibyte of logits passes in a fraction of that. Fewer instructions for a choice, not fewer bytes, make it faster. With
128 tokens even that is small beside a kernel's start and end, and a single row's chain of reductions.
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
