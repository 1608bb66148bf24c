# expect: rule_violation static.kernel_use
# A hook that runs before each launch does the work of the kernel.
# without rules: rule_violation runtime.operators
import torch
import triton
import triton.language as tl


@triton.jit
def touch(x, n, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + o, tl.load(x + o, mask=o < n), mask=o < n)


def compute(x, n, **options):
    x.mul_(0.5)


touch.add_pre_run_hook(compute)


def run(G, steps=5):
    out = G.clone()
    touch[(triton.cdiv(out.numel(), 1024),)](out, out.numel(), BLOCK=1024)
    return out
