"""Counts of one call, by workload: no count is measured, and no agent sees what the best known algorithm needs.

There is no matrix product, and bytes are all that is counted: those that no design can do without. The floor is not
reached by them alone: each row is a chain of reductions of which none can begin before the one before it ends, and all
rows add to the same few counters, for which a second launch is the cheaper way where there are many.
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
