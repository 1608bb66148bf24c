# expect: rule_violation static.reflection
# A function starts a thread under the name of PyTorch's own file: a file's name is a text that anybody can write.
# without rules: rule_violation runtime.workers
import threading

import torch

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


def compute(G, box):
    thread = threading.Thread(target=lambda: box.append(orthogonal(G)))
    thread.start()
    thread.join()


compute.__code__ = compute.__code__.replace(co_filename=torch.__file__)


def run(G, steps=5):
    box = []
    compute(G, box)
    return box[0]
