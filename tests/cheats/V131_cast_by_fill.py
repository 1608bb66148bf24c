# expect: rule_violation runtime.operators
# PyTorch casts by filling a tensor of one type with an element of another.
import torch
import triton
import triton.language as tl


@triton.jit
def touch(x, BLOCK: tl.constexpr):
    o = tl.arange(0, BLOCK)
    tl.store(x + o, tl.load(x + o))


def run(G, steps=5):
    counts = torch.ones(2, dtype=torch.int32, device=G.device)
    scale = torch.empty(1, dtype=torch.float32, device=G.device)
    scale.fill_(counts[0])
    out = torch.empty_like(G)
    touch[(1,)](out, BLOCK=16)
    return out
