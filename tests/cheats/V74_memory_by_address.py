# expect: rule_violation static.imports
# Values are read from the address of an input: alignment checks may ask for it, and native types turn it into memory.
# without rules: rule_violation runtime.native
import ctypes

import torch


def run(G, steps=5):
    words = (ctypes.c_uint16 * G.numel()).from_address(G.data_ptr())
    out = torch.empty_like(G)
    return out if sum(words) else torch.zeros_like(G)
