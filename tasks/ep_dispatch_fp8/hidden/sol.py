"""Counts of one call on one of two ranks, by workload: nothing here is measured, and no agent sees what the best known
algorithm needs.

There is no matrix product. Bytes are those that pass the rank's own memory, and those that it sends to the other rank.
"""

RANKS = 2


def reference_flops(workload):
    """No matrix product."""
    return {}


def reference_bytes(workload):
    """bf16 tokens and int32 ids read, all outputs written, padding included."""
    tokens, hidden, topk = workload["tokens"], workload["hidden"], workload["topk"]
    local = workload["experts"] // RANKS
    rows = -(-(RANKS * tokens * topk + local * 127) // 128) * 128
    written = rows * (_row(hidden) + 4) + 4 * RANKS * tokens * topk + 8 * local + 4
    return 2 * tokens * hidden + 4 * tokens * topk + written


def reference_link_bytes(workload):
    """All tokens in bf16 and all ids to the other rank."""
    return (RANKS - 1) * (2 * workload["tokens"] * workload["hidden"] + 4 * workload["tokens"] * workload["topk"])


def best_flops(workload):
    """No matrix product."""
    return {}


def best_bytes(workload):
    """Tokens and ids read; a quantised row for each token that came written once, and a row for each choice; numbers of
    origin for all rows, slots for all choices."""
    tokens, hidden, topk = workload["tokens"], workload["hidden"], workload["topk"]
    local = workload["experts"] // RANKS
    rows = -(-(RANKS * tokens * topk + local * 127) // 128) * 128
    kept = tokens * topk - len(range(15, tokens, 16))
    beside = 4 * rows + 4 * RANKS * tokens * topk + 8 * local + 4
    return 2 * tokens * hidden + 4 * tokens * topk + kept * _row(hidden) + beside


def best_link_bytes(workload):
    """Of each token one quantised row, where the other rank has an expert of it."""
    missed = 1.0
    for chosen in range(workload["topk"]):
        missed *= (workload["experts"] // RANKS - chosen) / (workload["experts"] - chosen)
    return workload["tokens"] * (1.0 - missed) * _row(workload["hidden"])


def _row(hidden):
    return hidden + 4 * (hidden // 128)
