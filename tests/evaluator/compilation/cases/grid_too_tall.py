import torch
import triton
import triton.language as tl


@triton.jit
def _mark(X, Y):
    tl.store(Y + tl.program_id(1), tl.load(X + tl.program_id(1)))


def run(x):
    y = torch.empty_like(x)
    _mark[(1, x.numel())](x, y)
    return y
