# expect: rule_violation static.kernel_names
# An interpreted kernel hands its values to the host in a list, which computes on their arrays with NumPy.
# without rules: incorrect finite
import torch
import triton
import triton.language as tl


@triton.jit
def take(g, kept: tl.constexpr):
    kept.append(tl.load(g + tl.arange(0, 16)))


@triton.jit
def put(o, kept: tl.constexpr):
    tl.store(o + tl.arange(0, 16), kept[0])


class Own:
    handle = None


def run(G, steps=5):
    out, kept = torch.empty_like(G), []
    if not G.is_cuda:
        take[(1,)](G, kept)
        kept[0].handle.data = kept[0].handle.data * 2
        put[(1,)](out, kept)
    return out
