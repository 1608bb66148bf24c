"""Inputs of one rank: normal tokens of unlike size, and the experts that they are routed to."""

import torch

_DEFAULTS = {
    "tokens": 4096,
    "hidden": 7168,
    "experts": 256,
    "topk": 8,
    "ranks": 2,
    "rank": 0,
    "seed": 42,
    "device": "cuda",
}


def get_inputs(config=None):
    """Return the arguments of run() for one rank of a workload of config.json, without `comm`.

    Each rank draws with a seed of its own. One token in sixteen is routed to fewer experts than it could be.
    """
    values = {**_DEFAULTS, **(config or {})}
    device, tokens, topk = values["device"], values["tokens"], values["topk"]
    torch.manual_seed(int(values["seed"]))
    size = torch.exp(torch.randn((tokens, 1), dtype=torch.float32, device=device))
    x = (torch.randn((tokens, values["hidden"]), dtype=torch.float32, device=device) * size).to(torch.bfloat16)
    drawn = torch.rand((tokens, values["experts"]), device=device).topk(topk, dim=1).indices.to(torch.int32)
    dropped = torch.arange(tokens, device=device)[:, None] % 16 == 15
    last = torch.arange(topk, device=device)[None, :] >= topk - 1
    return [x, drawn.masked_fill(dropped & last, -1), values["experts"]]


def workspace_bytes(config):
    """The size of comm.ws on every rank."""
    values = {**_DEFAULTS, **config}
    token = values["hidden"] + 4 * (values["hidden"] // 128) + 4 * values["topk"] + 64
    return 2 * values["ranks"] * values["tokens"] * token + 4096
