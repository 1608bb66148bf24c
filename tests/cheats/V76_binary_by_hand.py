# expect: rule_violation static.module_names
# The handle of a compiled kernel is exchanged for one of a binary that Triton's driver loads by hand.
# without rules: rule_violation runtime.kernels
import torch
import triton
import triton.language as tl
from triton.runtime import driver


@triton.jit
def _copy(x, y, n, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + o, tl.load(x + o, mask=o < n), mask=o < n)


def run(G, steps=5):
    out = torch.empty_like(G)
    grid = (triton.cdiv(G.numel(), 1024), 1, 1)
    compiled = _copy[grid](G, out, G.numel(), BLOCK=1024)
    text = compiled.asm["ptx"].replace("_copy", "borrowed")
    loaded = driver.active.utils.load_binary("borrowed", text.encode(), compiled.metadata.shared, G.device.index or 0)
    compiled.module, compiled.function = loaded[0], loaded[1]
    _copy[grid](G, out, G.numel(), BLOCK=1024)
    return out
