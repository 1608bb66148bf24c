import torch
import triton
import triton.language as tl


@triton.jit
def _bogus(X, Y):
    o = tl.arange(0, 128)
    x = tl.load(X + o)
    y = tl.inline_asm_elementwise("frobnicate.f32 $0, $1;", "=f,f", [x.to(tl.float32)], tl.float32, True, 1)
    tl.store(Y + o, y)


def run(x):
    y = torch.empty_like(x)
    _bogus[(1,)](x, y)
    return y
