"""Inputs of one workload: a language model's last hidden states and output weights, with peaked predictions.

Peaked, because with plain noise a softmax over a large vocabulary is nearly flat, and its whole contribution to the
gradients is lost below that of the targets.
"""

import math

import torch

_DEFAULTS = {"N": 8192, "H": 4096, "V": 128256, "seed": 42, "device": "cuda"}
CANDIDATES = 8
"""Vocabulary entries that a token finds likely."""
IGNORED = -100


def get_inputs(config=None):
    """Return [x, w, target, dw_acc] for a workload of config.json.

    Candidates come from an eighth of the vocabulary; hardly any token finds an entry of the rest likely. Four of five
    tokens have one of their candidates as target. One token in 17 is ignored: their number follows from N, their places
    from the seed.
    """
    values = {**_DEFAULTS, **dict(config or {})}
    tokens, width, entries, device = values["N"], values["H"], values["V"], values["device"]
    generator = torch.Generator(device).manual_seed(int(values["seed"]))
    on = {"device": device, "generator": generator}

    w = (torch.randn((entries, width), **on) / math.sqrt(width)).to(torch.bfloat16)
    pool = torch.randperm(entries, **on)[: max(entries // 8, CANDIDATES)]
    start = torch.randint(len(pool), (tokens, 1), **on)
    candidates = pool[(start + torch.arange(CANDIDATES, device=device)) % len(pool)]

    x = torch.randn((tokens, width), **on)
    for rank in range(CANDIDATES):
        x += w[candidates[:, rank]] * (math.log(entries) + 1 - 0.4 * rank)

    likely = torch.exp(-0.4 * torch.arange(CANDIDATES, device=device))
    chosen = torch.multinomial(likely, tokens, replacement=True, generator=generator)
    target = candidates.gather(1, chosen[:, None])[:, 0]
    anywhere = torch.randint(entries, (tokens,), **on)
    target = torch.where(torch.rand(tokens, **on) < 0.8, target, anywhere).to(torch.int32)

    dw_acc = torch.randn((entries, width), **on) * (16 / tokens)
    target[torch.randperm(tokens, **on)[: tokens // 17]] = IGNORED
    return [x.to(torch.bfloat16), w, target, dw_acc]
