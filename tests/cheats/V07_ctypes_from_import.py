# expect: rule_violation static.imports
# The vendor library under an innocent name.
# without rules: rule_violation runtime.native
from ctypes import CDLL as open_library

import torch

blas = open_library("libcublas.so.12")


def run(G, steps=5):
    blas.cublasCreate_v2(None)
    return torch.empty_like(G)
