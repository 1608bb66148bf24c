"""What `run` has to compute, written for clarity in PyTorch. Not for speed."""

import torch

COEFFICIENTS = (
    (7.892582874424408, -20.38301394587957, 13.555306149406924),
    (3.911484868135431, -2.5464635929060884, 0.4268988319673074),
    (3.760657955697423, -2.512819018216563, 0.4323647349070073),
    (3.160399673686287, -2.149649518898498, 0.3996366907664389),
    (2.1910971618617303, -1.441662010214663, 0.328146487623155),
)


def _unit_norm(G):
    """Each matrix over its own Frobenius norm, in float32, then rounded to float16."""
    wide = G.to(torch.float32)
    norm = torch.linalg.vector_norm(wide, dim=(-2, -1), keepdim=True)
    return (wide / (norm + 1e-7)).to(torch.float16)


def run(G, steps=5):
    if steps != len(COEFFICIENTS):
        raise ValueError(f"steps must be {len(COEFFICIENTS)}: the operator has no other length")
    if G.dim() < 2:
        raise ValueError("G must have at least two dimensions: [..., M, K]")
    X = _unit_norm(G)
    for a, b, c in COEFFICIENTS:
        A = X @ X.mT
        action = b * A + c * (A @ A)
        X = a * X + action @ X
    return X.to(G.dtype)
