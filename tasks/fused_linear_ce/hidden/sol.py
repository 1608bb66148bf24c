"""Counts of one call, by workload: nothing here is measured, and no agent sees what the best known algorithm needs.

Operations are those of matrix products, a multiplication and an addition being two, by the class of their operands.
The reference multiplies in float32; what it multiplies may be bf16 by the task's rules, so that is its class. Bytes
pass memory in any case.
"""


def reference_flops(workload):
    """Logits, the gradient of x, the gradient of w: three products over all tokens."""
    return {"bf16": 3 * _product(workload, workload["N"])}


def reference_bytes(workload):
    """bf16 x and w and int32 targets read, dx (bf16), lse and loss (fp32) written, the fp32 sum read and written."""
    tokens, width, entries = workload["N"], workload["H"], workload["V"]
    return 4 * tokens * width + 8 * tokens + 4 + (2 + 8) * entries * width


def best_flops(workload):
    """Logits of all tokens, since lse is wanted for each, and two gradients of those that are not ignored."""
    tokens = workload["N"]
    return {"bf16": _product(workload, tokens) + 2 * _product(workload, tokens - tokens // 17)}


def best_bytes(workload):
    """The same tensors."""
    return reference_bytes(workload)


def _product(workload, tokens):
    return 2 * tokens * workload["H"] * workload["V"]
