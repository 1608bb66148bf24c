# expect: rule_violation static.reflection
# A module of Triton's is handed on in a container, and used by a name that the candidate has a field of.
# without rules: rule_violation runtime.operators
import torch
import triton.language as tl


class Own:
    wraps = None


BOX = {"core": tl.core}


@BOX.get("core").wraps(torch.is_tensor, assigned=(), updated=("__globals__",))
def mine():
    return 0


def run(G, steps=5):
    return mul(G, 2)  # noqa: F821
