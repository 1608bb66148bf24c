"""Inputs of one Muon workload: standard normal matrices in bfloat16."""

import torch

_DEFAULTS = {"batch_size": 32, "M": 2048, "N": 5464, "steps": 5, "seed": 42, "device": "cuda"}


def get_inputs(config=None):
    """Return [G, steps] for a workload of config.json; `batch` and `K` are accepted for `batch_size` and `N`."""
    given = dict(config or {})
    if "batch" in given:
        given.setdefault("batch_size", given["batch"])
    if "K" in given:
        given["N"] = given["K"]
    values = {**_DEFAULTS, **given}
    torch.manual_seed(int(values["seed"]))
    shape = (values["batch_size"], values["M"], values["N"])
    G = torch.randn(shape, dtype=torch.bfloat16, device=values["device"])
    return [G, values["steps"]]
