"""What the best known algorithm must do for a workload, as counts: nothing here is measured, and no agent sees it."""


def product_flops(workload):
    """No matrix product."""
    return 0


def compulsory_bytes(workload):
    """Bytes that pass memory in any case: fp32 logits read, weights and ids written, loads read and written."""
    tokens, experts = workload["tokens"], workload["experts"]
    return 4 * tokens * experts + 8 * tokens * workload["topk"] + 8 * experts
