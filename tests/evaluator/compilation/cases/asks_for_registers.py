"""Host code that sizes its grid by the registers of the compiled kernel, as a persistent softmax does."""

import torch
import triton
import triton.language as tl


@triton.jit
def _scale(X, Y, n, BLOCK: tl.constexpr):
    for start in range(tl.program_id(0) * BLOCK, n, tl.num_programs(0) * BLOCK):
        o = start + tl.arange(0, BLOCK)
        tl.store(Y + o, tl.load(X + o, mask=o < n) * 2, mask=o < n)


def run(x):
    y = torch.empty_like(x)
    kernel = _scale.warmup(x, y, x.numel(), BLOCK=1024, num_warps=4, grid=(1,))
    kernel._init_handles()
    sms = torch.cuda.get_device_properties(x.device).multi_processor_count
    _scale[(sms * (65536 // (kernel.n_regs * 128)),)](x, y, x.numel(), BLOCK=1024, num_warps=4)
    return y
