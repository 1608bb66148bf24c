# expect: rule_violation static.imports
# A compiled kernel of unknown origin, planted where Triton looks for its own.
# without rules: incorrect rel_norm
import torch
import triton
from triton.runtime.cache import get_cache_manager

manager = get_cache_manager("0" * 64)
manager.put(b"\x7fELF", "kernel.cubin")


def run(G, steps=5):
    return torch.zeros_like(G)
