import torch
import triton
import triton.language as tl


@triton.jit
def _normalise_both(X, Y, Z, N, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(X + o).to(tl.float32)
    y = tl.load(Y + o).to(tl.float32)
    # Both stay in registers until the sums are known: 2 x 8192 values for 32 threads.
    tl.store(Z + o, x / tl.sum(x, 0) + y / tl.sum(y, 0))


def run(x):
    z = torch.empty(x.shape, device=x.device, dtype=torch.float32)
    _normalise_both[(triton.cdiv(x.numel(), 8192),)](x, x.t().contiguous(), z, x.numel(), 8192, num_warps=1)
    return z
