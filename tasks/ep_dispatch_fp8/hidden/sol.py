"""Counts of one call on one of `ranks` ranks, by workload: nothing here is measured, and no agent sees what the best
known algorithm needs.

There is no matrix product. Bytes are those that pass the rank's own memory, and those that it sends to other ranks.
"""


def reference_flops(workload):
    """No matrix product."""
    return {}


def reference_bytes(workload):
    """bf16 tokens and int32 ids read, all outputs written, padding included."""
    tokens, hidden, topk, ranks = workload["tokens"], workload["hidden"], workload["topk"], workload["ranks"]
    local = workload["experts"] // ranks
    rows = -(-(ranks * tokens * topk + local * 127) // 128) * 128
    written = rows * (_row(hidden) + 4) + 4 * ranks * tokens * topk + 8 * local + 4
    return 2 * tokens * hidden + 4 * tokens * topk + written


def reference_link_bytes(workload):
    """All tokens in bf16 and all ids to each other rank."""
    tokens, hidden, topk = workload["tokens"], workload["hidden"], workload["topk"]
    return (workload["ranks"] - 1) * (2 * tokens * hidden + 4 * tokens * topk)


def best_flops(workload):
    """No matrix product."""
    return {}


def best_bytes(workload):
    """Tokens and ids read; a quantised row for each choice that came written; numbers of origin for all rows, slots for
    all choices."""
    tokens, hidden, topk, ranks = workload["tokens"], workload["hidden"], workload["topk"], workload["ranks"]
    local = workload["experts"] // ranks
    rows = -(-(ranks * tokens * topk + local * 127) // 128) * 128
    kept = tokens * topk - len(range(15, tokens, 16))
    beside = 4 * rows + 4 * ranks * tokens * topk + 8 * local + 4
    return 2 * tokens * hidden + 4 * tokens * topk + kept * _row(hidden) + beside


def best_link_bytes(workload):
    """Of each token one quantised row to each other rank that has an expert of it: the mean over random choices, as if
    none were dropped. A scale is a power of two, for which one byte is enough on the way.
    """
    hidden, experts, ranks, missed = workload["hidden"], workload["experts"], workload["ranks"], 1.0
    for chosen in range(workload["topk"]):
        missed *= (experts - experts // ranks - chosen) / (experts - chosen)
    return workload["tokens"] * (ranks - 1) * (1.0 - missed) * (hidden + hidden // 128)


def _row(hidden):
    """A received row: e4m3 payload and float32 scales."""
    return hidden + 4 * (hidden // 128)
