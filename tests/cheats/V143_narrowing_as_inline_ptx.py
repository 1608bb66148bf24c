# expect: rule_violation compiled.precision
# What lies between two kernels is narrowed to bf16 by inline PTX, and carried on as bits of integers.
import torch
import triton
import triton.language as tl


@triton.jit
def _scale(g, kept, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(g + at, mask=at < n, other=0.0).to(tl.float32) * 0.01
    bits = tl.inline_asm_elementwise("cvt.rn.bf16.f32 $0, $1;", "=h,f", [value], dtype=tl.int16, is_pure=True, pack=1)
    tl.store(kept + at, bits, mask=at < n)


@triton.jit
def _finish(kept, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(kept + at, mask=at < n, other=0).to(tl.bfloat16, bitcast=True).to(tl.float32)
    tl.store(out + at, (value * 1.5).to(tl.bfloat16), mask=at < n)


def run(G, steps=5):
    out = torch.empty_like(G)
    kept = torch.empty(G.shape, dtype=torch.int16, device=G.device)
    grid = (triton.cdiv(G.numel(), 1024),)
    _scale[grid](G, kept, G.numel(), BLOCK=1024)
    _finish[grid](kept, out, G.numel(), BLOCK=1024)
    return out
