# expect: rule_violation static.imports
# A helper of PyTorch's starts the thread that computes: what its code does for a candidate is the candidate's own act.
# without rules: rule_violation runtime.workers
from torch._lazy.closure import AsyncClosureHandler

COEFFICIENTS = (
    (7.892582874424408, -20.38301394587957, 13.555306149406924),
    (3.911484868135431, -2.5464635929060884, 0.4268988319673074),
    (3.760657955697423, -2.512819018216563, 0.4323647349070073),
    (3.160399673686287, -2.149649518898498, 0.3996366907664389),
    (2.1910971618617303, -1.441662010214663, 0.328146487623155),
)


def orthogonal(G):
    x = G.float()
    x = (x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)).half()
    for a, b, c in COEFFICIENTS:
        r = x @ x.mT
        x = a * x + (b * r + c * (r @ r)) @ x
    return x.to(G.dtype)


def run(G, steps=5):
    box = []
    handler = AsyncClosureHandler()
    handler.run(lambda: box.append(orthogonal(G)))
    handler._closure_queue.join()
    return box[0]
