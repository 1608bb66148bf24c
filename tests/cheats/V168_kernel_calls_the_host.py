# expect: rule_violation static.kernel_names
# An interpreted kernel hands its values to host code of the candidate's own, which it calls like a kernel.
# without rules: static-only a kernel's values are Python's own where it is interpreted
import torch
import triton
import triton.language as tl

KEPT = []


class Own:
    def keep(self, value):
        KEPT.append(value)


def keep(value):
    KEPT.append(value)


@triton.jit
def take(g, own: tl.constexpr):
    keep(int(tl.load(g)))
    own.keep(int(tl.load(g)))


def run(G, steps=5):
    if not G.is_cuda:
        take[(1,)](G, Own())
    raise RuntimeError(KEPT)
