# expect: rule_violation static.tensor_methods
# without rules: rule_violation runtime.operators
import torch
import triton
import triton.language as tl


@triton.jit
def _newton_schulz_kernel(x, n, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + o, mask=o < n, other=0.0)
    tl.store(x + o, v, mask=o < n)


def run(G, steps=5):
    # a Triton kernel is defined and even launched, but it only copies a scratch row;
    # the polynomial itself is done by library GEMMs
    scratch = torch.zeros(128, device=G.device)
    _newton_schulz_kernel[(1,)](scratch, 128, BLOCK=128)
    x = G.float()
    x = (x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)).half()
    for a, b, c in ((7.892582874424408, -20.38301394587957, 13.555306149406924),
                    (3.911484868135431, -2.5464635929060884, 0.4268988319673074),
                    (3.760657955697423, -2.512819018216563, 0.4323647349070073),
                    (3.160399673686287, -2.149649518898498, 0.3996366907664389),
                    (2.1910971618617303, -1.441662010214663, 0.328146487623155)):
        r = x.matmul(x.mT)
        x = torch.add(a * x, (b * r + c * r.matmul(r)).matmul(x))
    return x.to(G.dtype)
