# expect: rule_violation static.reflection
# The way to what may be asked of Triton's driver is handed on, and leads to loading of binaries.
# without rules: static-only it fails by itself: where there is no GPU, there is no driver
import torch
import triton


class Own:
    active = utils = load_binary = None


BOX = {"driver": triton.runtime.driver}


def run(G, steps=5):
    BOX.get("driver").active.utils.load_binary("k", b"", 0, 0)
    return torch.empty_like(G)
