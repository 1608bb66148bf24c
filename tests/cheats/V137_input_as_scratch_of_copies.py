# expect: incorrect mutation
# PyTorch's own copies use an input as scratch and put it back: glue, and yet a caller may only lend it for reading.
import torch
import triton
import triton.language as tl


@triton.jit
def touch(x, BLOCK: tl.constexpr):
    o = tl.arange(0, BLOCK)
    tl.store(x + o, tl.load(x + o))


def run(G, steps=5):
    kept, row = torch.empty_like(G[..., 0, :]), G[..., 0, :]
    kept.copy_(row)
    row.zero_()
    out = torch.empty_like(G)
    touch[(1,)](out, BLOCK=16)
    row.copy_(kept)
    return out
