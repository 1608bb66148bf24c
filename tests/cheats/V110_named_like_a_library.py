# expect: rule_violation static.borrowed_names
# A kernel is named as cuBLAS names one of its own, so that cuBLAS's would count as the candidate's.
# without rules: rule_violation compiled.kernel_names
import torch
import triton
import triton.language as tl


@triton.jit
def nvjet_hsh_128x256_64x4_2x1_v_bz_coopA_NNT(x, out, n, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + o, tl.load(x + o, mask=o < n), mask=o < n)


def run(G, steps=5):
    out = torch.empty_like(G)
    grid = (triton.cdiv(out.numel(), 1024),)
    nvjet_hsh_128x256_64x4_2x1_v_bz_coopA_NNT[grid](G, out, out.numel(), BLOCK=1024)
    return out
