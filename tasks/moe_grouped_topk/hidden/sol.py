"""What the best known algorithm must do for a workload, as counts: nothing here is measured, and no agent sees it.

Bytes are all that is counted, and the best known kernel takes ten times as long as they do and more. It is bound by the
instructions that it issues: a row is k rounds of two reductions across a warp, each waiting for the one before, some
600 instructions for 256 experts, mostly on integers, which run at half rate; the row's kibibyte of logits passes in a
fraction of that. Fewer instructions for a choice, not fewer bytes, make it faster. With 128 tokens even that is small
beside a kernel's start and end, and a single row's chain of reductions.
"""


def product_flops(workload):
    """No matrix product."""
    return 0


def compulsory_bytes(workload):
    """Bytes that pass memory in any case: fp32 logits read, weights and ids written, loads read and written."""
    tokens, experts = workload["tokens"], workload["experts"]
    return 4 * tokens * experts + 8 * tokens * workload["topk"] + 8 * experts
