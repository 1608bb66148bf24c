# expect: rule_violation static.imports
# A C++ extension, built on the spot: by other processes, which is where it is found.
# without rules: rule_violation runtime.workers
import torch
from torch.utils.cpp_extension import load_inline

SOURCE = "torch::Tensor mm(torch::Tensor a, torch::Tensor b) { return at::matmul(a, b); }"
mm = load_inline("fast", SOURCE, functions=["mm"]).mm

COEFFICIENTS = (
    (7.892582874424408, -20.38301394587957, 13.555306149406924),
    (3.911484868135431, -2.5464635929060884, 0.4268988319673074),
    (3.760657955697423, -2.512819018216563, 0.4323647349070073),
    (3.160399673686287, -2.149649518898498, 0.3996366907664389),
    (2.1910971618617303, -1.441662010214663, 0.328146487623155),
)


def run(G, steps=5):
    x = G.float()
    x = (x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)).half()
    for a, b, c in COEFFICIENTS:
        r = mm(x, x.mT)
        x = a * x + mm(b * r + c * mm(r, r), x)
    return x.to(G.dtype)
