# expect: rule_violation compiled.kernel_names
# The name is not in the source as a function's: the decorator makes it while the kernel is compiled.
import torch
import triton
import triton.language as tl


def name(specialization):
    return "nvjet" + "_hsh_128x256_64x4_2x1_v_bz_coopA_NNT"


@triton.jit(repr=name)
def copy(x, out, n, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + o, tl.load(x + o, mask=o < n), mask=o < n)


def run(G, steps=5):
    out = torch.empty_like(G)
    copy[(triton.cdiv(out.numel(), 1024),)](G, out, out.numel(), BLOCK=1024)
    return out
