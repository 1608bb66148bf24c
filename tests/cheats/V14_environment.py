# expect: rule_violation static.imports
# Settings of the process decide how kernels are compiled and measured.
# without rules: incorrect rel_norm
from os import environ

import torch

environ["TRITON_INTERPRET"] = "0"
environ["CUDA_LAUNCH_BLOCKING"] = "1"


def run(G, steps=5):
    return torch.zeros_like(G)
