"""Hidden variations of the inputs, and the bounds of a call.

A variation takes the inputs of `get_inputs` and a secret generator, and returns new inputs; the ones it was given stay
as they are. The generator may live on another device than the inputs.
"""

import torch


def fresh_draw(inputs: list, generator: torch.Generator) -> list:
    """Uniform values that no seed of `get_inputs` produces."""
    x, factor = inputs
    draw = torch.rand(x.shape, generator=generator, device=generator.device)
    return [draw.to(x.device), factor]


def memory_cap_bytes(workload: dict) -> int:
    """Most bytes that may be alive in a call beyond the inputs, outputs counted in."""
    return workload["n"] * 4 + (1 << 20)


def copy_budget_bytes(workload: dict) -> int:
    """Most bytes that a call may move with same-dtype copies of PyTorch."""
    return workload["n"] * 4
