"""What the best known algorithm must do for a workload, as counts: nothing here is measured, and no agent sees it."""


def product_flops(workload):
    """Multiplications and additions of matrix products: squares of half the work, since they are symmetric."""
    batch, rows, columns = workload["batch_size"], workload["M"], workload["N"]
    return batch * (6 * rows**2 * columns + 14 * rows**3)


def compulsory_bytes(workload):
    """Bytes that pass memory in any case: G is read and the result written, both bf16."""
    return 4 * workload["batch_size"] * workload["M"] * workload["N"]
