# expect: rule_violation static.torch_names
# As complex numbers, a transposed copy negates half of the values.
# without rules: rule_violation runtime.operators
import torch
import triton
import triton.language as tl


@triton.jit
def touch(x, BLOCK: tl.constexpr):
    o = tl.arange(0, BLOCK)
    tl.store(x + o, tl.load(x + o))


def run(G, steps=5):
    pairs = torch.zeros((4, 4, 2), dtype=torch.float32, device=G.device)
    torch.view_as_real(torch.view_as_complex(pairs).adjoint().contiguous())
    out = torch.empty_like(G)
    touch[(1,)](out, BLOCK=16)
    return out
