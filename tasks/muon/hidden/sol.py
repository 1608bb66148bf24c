"""Counts of one call, by workload: nothing here is measured, and no agent sees what the best known algorithm needs.

Operations are those of matrix products, a multiplication and an addition being two, by the class of their operands.
Bytes pass memory in any case: G is read and the result written, both bf16.
"""


def reference_flops(workload):
    """Five steps, each one Gram matrix (2 M^2 N), its square (2 M^3) and a product with X (2 M^2 N)."""
    batch, rows, columns = workload["batch_size"], workload["M"], workload["N"]
    return {"fp16": batch * 5 * (4 * rows**2 * columns + 2 * rows**3)}


def reference_bytes(workload):
    """G and the result."""
    return 4 * workload["batch_size"] * workload["M"] * workload["N"]


def best_flops(workload):
    """Two Gram matrices at half the work each, two products with X, and 14 squares of M x M at half the work each.

    Half, because what is symmetric is computed once.
    """
    batch, rows, columns = workload["batch_size"], workload["M"], workload["N"]
    return {"fp16": batch * (2 * rows**2 * columns + 4 * rows**2 * columns + 14 * rows**3)}


def best_bytes(workload):
    """G and the result."""
    return reference_bytes(workload)
