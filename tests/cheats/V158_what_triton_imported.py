# expect: rule_violation static.module_names
# Below triton.language stands all that Triton's own files import: functools.wraps, and a loader of modules.
# without rules: rule_violation runtime.operators
import torch
import triton.language as tl


@tl.core.wraps(torch.is_tensor, assigned=(), updated=("__globals__",))
def mine():
    return 0


tl.extra.module_from_spec(tl.extra.spec)


def run(G, steps=5):
    return mul(G, 2)  # noqa: F821
