# expect: incorrect mutation
# An input that may only be read is changed, worked on and put back before anybody looks at it again.
import torch
import triton
import triton.language as tl


@triton.jit
def touch(x, BLOCK: tl.constexpr):
    o = tl.arange(0, BLOCK)
    tl.store(x + o, tl.load(x + o))


@triton.jit
def flip(x, BLOCK: tl.constexpr):
    o = tl.arange(0, BLOCK)
    tl.store(x + o, (tl.load(x + o).to(tl.int16, bitcast=True) ^ 0x5A5A).to(tl.bfloat16, bitcast=True))


def run(G, steps=5):
    flip[(1,)](G, BLOCK=16)
    flip[(1,)](G, BLOCK=16)
    out = torch.empty_like(G)
    touch[(1,)](out, BLOCK=16)
    return out
