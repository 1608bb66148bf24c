import torch
import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl


@gluon.jit
def _copy(X, Y, n, BLOCK: gl.constexpr, layout: gl.constexpr):
    o = gl.program_id(0) * BLOCK + gl.arange(0, BLOCK, layout=layout)
    gl.store(Y + o, gl.load(X + o, mask=o < n), mask=o < n)


def run(x):
    y = torch.empty_like(x)
    layout = gl.BlockedLayout([8], [32], [4], [0])
    _copy[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), 1024, layout, num_warps=4)
    return y
