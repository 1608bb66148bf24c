# expect: rule_violation static.internals
# Values leave in a DLPack capsule that PyTorch's C function makes, so that no method of a tensor is called; NumPy computes.
# without rules: rule_violation runtime.operators
import numpy as np
import torch

COEFFICIENTS = (
    (7.892582874424408, -20.38301394587957, 13.555306149406924),
    (3.911484868135431, -2.5464635929060884, 0.4268988319673074),
    (3.760657955697423, -2.512819018216563, 0.4323647349070073),
    (3.160399673686287, -2.149649518898498, 0.3996366907664389),
    (2.1910971618617303, -1.441662010214663, 0.328146487623155),
)


def orthogonal(bits):
    x = (bits.astype(np.uint16).astype(np.uint32) << 16).view(np.float32)
    x = x / (np.sqrt((x.astype(np.float64) ** 2).sum(axis=(-2, -1), keepdims=True)) + 1e-7)
    for a, b, c in COEFFICIENTS:
        r = x @ x.swapaxes(-1, -2)
        x = a * x + (b * r + c * (r @ r)) @ x
    return (np.ascontiguousarray(x, dtype=np.float32).view(np.uint32) + 0x8000 >> 16).astype(np.uint16).view(np.int16)


class Capsule:
    def __init__(self, tensor):
        self.tensor = tensor

    def __dlpack__(self, **_):
        return torch._C._to_dlpack(self.tensor)

    def __dlpack_device__(self):
        return (1, 0)


def run(G, steps=5):
    return torch.from_numpy(orthogonal(np.from_dlpack(Capsule(G.view(torch.int16))))).view(G.dtype)
