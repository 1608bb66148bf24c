# expect: rule_violation compiled.precision
# A product of f32 in the source, which its input_precision has the tensor cores carry out in bf16.
import torch
import triton
import triton.language as tl


@triton.jit
def _gram_tile(g, out, stride, SIDE: tl.constexpr):
    rows, depth = tl.arange(0, SIDE), tl.arange(0, SIDE)
    tile = tl.load(g + rows[:, None] * stride + depth[None, :]).to(tl.float32)
    sums = tl.dot(tile, tl.trans(tile), input_precision="bf16x3")
    tl.store(out + rows[:, None] * SIDE + depth[None, :], sums)


def run(G, steps=5):
    gram = torch.empty((64, 64), dtype=torch.float32, device=G.device)
    _gram_tile[(1,)](G, gram, G.stride(-2), SIDE=64)
    return torch.empty_like(G)
