"""Sixteen configurations: the first is refused by its own assertion, one is pruned."""

import torch
import triton
import triton.language as tl

_CONFIGS = [triton.Config({"BLOCK": block}, num_warps=warps) for block in (4096, 128, 256, 512) for warps in (1, 2, 4, 8)]


def _keep(configs, named_args, **kwargs):
    return [config for config in configs if config.kwargs["BLOCK"] != 512 or config.num_warps != 8]


@triton.autotune(configs=_CONFIGS, key=["n"], prune_configs_by={"early_config_prune": _keep})
@triton.jit
def _twice(X, Y, n, BLOCK: tl.constexpr):
    tl.static_assert(BLOCK <= 1024)
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(Y + o, tl.load(X + o, mask=o < n) * 2, mask=o < n)


def run(x):
    y = torch.empty_like(x)
    _twice[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, y, x.numel())
    return y
