"""Inputs of one routing workload: normal logits, a small bias, and counters that have counted before."""

import torch

_DEFAULTS = {
    "tokens": 16384,
    "experts": 256,
    "n_group": 8,
    "topk_group": 4,
    "topk": 8,
    "routed_scaling": 2.5,
    "num_valid": None,
    "seed": 42,
    "device": "cuda",
}


def get_inputs(config=None):
    """Return the arguments of run() for a workload of config.json; without `num_valid` all rows are valid."""
    values = {**_DEFAULTS, **(config or {})}
    device, tokens, experts = values["device"], values["tokens"], values["experts"]
    torch.manual_seed(int(values["seed"]))
    logits = torch.randn((tokens, experts), dtype=torch.float32, device=device)
    bias = torch.randn(experts, dtype=torch.float32, device=device).mul_(0.05)
    expert_load = torch.randint(0, 1_000_000, (experts,), dtype=torch.int32, device=device)
    valid = tokens if values["num_valid"] is None else values["num_valid"]
    num_valid = torch.full((1,), valid, dtype=torch.int32, device=device)
    groups = [values[name] for name in ("n_group", "topk_group", "topk", "routed_scaling")]
    return [logits, bias, expert_load, num_valid, *groups]
