# expect: rule_violation static.kernel_names
# An interpreted kernel shows its values to the host by names of the module: a bound method, an object, a global.
# without rules: static-only a kernel's values are Python's own where it is interpreted
import torch
import triton
import triton.language as tl

KEPT = []
keep = KEPT.append
LAST = None


class Own:
    def __call__(self, value):
        KEPT.append(value)


own = Own()


@triton.jit
def take(g):
    global LAST
    LAST = tl.load(g)
    keep(int(tl.load(g)))
    own(tl.load(g))


def run(G, steps=5):
    if not G.is_cuda:
        take[(1,)](G)
    raise RuntimeError(f"{KEPT} {LAST}")
