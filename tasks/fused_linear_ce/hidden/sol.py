"""What the best known algorithm must do for a workload, as counts: nothing here is measured, and no agent sees it."""

IGNORED_SHARE = 1 / 17


def product_flops(workload):
    """Multiplications and additions of matrix products: logits of all tokens, two gradients of those that count."""
    product = 2 * workload["N"] * workload["H"] * workload["V"]
    return product * (1 + 2 * (1 - IGNORED_SHARE))


def compulsory_bytes(workload):
    """Bytes that pass memory in any case: bf16 x and w read, dx written, the fp32 accumulator read and written."""
    tokens, width, entries = workload["N"], workload["H"], workload["V"]
    return 4 * tokens * width + 2 * entries * width + 8 * entries * width
