import torch


def _check(x):
    if x.shape[0] > 64:
        raise ValueError("this kernel wants at most 64 rows")


def run(x):
    _check(x)
    return torch.empty_like(x)
