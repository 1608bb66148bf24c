# expect: rule_violation static.module_names
# The Python function below a kernel of Triton's own, called by the host.
# without rules: static-only it fails by itself: a semantic is needed, and only a kernel has one
import torch
import triton.language as tl


def run(G, steps=5):
    tl.zeros.fn(tl.constexpr([2]), tl.float32)
    return torch.empty_like(G)
