# expect: rule_violation static.kernel_names
# An interpreted kernel stores its values in a dictionary and in an attribute, where the host finds them.
# without rules: static-only a kernel's values are Python's own where it is interpreted
import torch
import triton
import triton.language as tl


class Own:
    value = None


@triton.jit
def take(g, kept: tl.constexpr, own: tl.constexpr):
    kept["value"] = int(tl.load(g))
    own.value = int(tl.load(g))


def run(G, steps=5):
    kept = {}
    if not G.is_cuda:
        take[(1,)](G, kept, Own)
    raise RuntimeError(kept)
