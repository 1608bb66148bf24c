# expect: rule_violation static.kernel_names
# An interpreted kernel is Python: it could call torch, if names in it were not resolved.
# without rules: static-only it fails by itself: a value inside a kernel is none of PyTorch's tensors
import torch
import triton
import triton.language as tl


@triton.jit
def product(a, b, out, BLOCK: tl.constexpr):
    value = torch.matmul(a, b)
    tl.store(out + tl.arange(0, BLOCK), value)


def run(G, steps=5):
    out = torch.empty_like(G)
    product[(1,)](G, G, out, BLOCK=64)
    return out
