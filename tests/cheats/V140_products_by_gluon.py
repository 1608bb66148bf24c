# expect: rule_violation compiled.precision
# Products in bf16 where the task says f16, asked of the tensor cores by Gluon: such a kernel has no IR of Triton's.
import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import mma_v2


@gluon.jit
def _gram_tile(g, out, stride, SIDE: gl.constexpr):
    sums_layout: gl.constexpr = gl.NVMMADistributedLayout(version=[2, 0], warps_per_cta=[4, 1], instr_shape=[16, 8])
    left_layout: gl.constexpr = gl.DotOperandLayout(operand_index=0, parent=sums_layout, k_width=2)
    right_layout: gl.constexpr = gl.DotOperandLayout(operand_index=1, parent=sums_layout, k_width=2)
    rows = gl.arange(0, SIDE, layout=gl.SliceLayout(1, left_layout))
    depth = gl.arange(0, SIDE, layout=gl.SliceLayout(0, left_layout))
    left = gl.load(g + rows[:, None] * stride + depth[None, :])
    depth = gl.arange(0, SIDE, layout=gl.SliceLayout(1, right_layout))
    columns = gl.arange(0, SIDE, layout=gl.SliceLayout(0, right_layout))
    right = gl.load(g + columns[None, :] * stride + depth[:, None])
    sums = mma_v2(left, right, gl.zeros([SIDE, SIDE], gl.float32, sums_layout))
    rows = gl.arange(0, SIDE, layout=gl.SliceLayout(1, sums_layout))
    columns = gl.arange(0, SIDE, layout=gl.SliceLayout(0, sums_layout))
    gl.store(out + rows[:, None] * SIDE + columns[None, :], sums)


def run(G, steps=5):
    gram = torch.empty((64, 64), dtype=torch.float32, device=G.device)
    _gram_tile[(1,)](G, gram, G.stride(-2), SIDE=64, num_warps=4)
    return torch.empty_like(G)
