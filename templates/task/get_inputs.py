"""Inputs of one workload."""

import torch

_DEFAULTS = {"n": 16777216, "factor": 3.0, "seed": 42, "device": "cuda"}


def get_inputs(config=None):
    """Return the arguments of run() for a workload of config.json."""
    values = {**_DEFAULTS, **(config or {})}
    torch.manual_seed(int(values["seed"]))
    return [torch.randn(values["n"], device=values["device"]), values["factor"]]
