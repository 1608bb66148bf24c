# expect: rule_violation static.imports
# The same product by another library, on the host.
# without rules: rule_violation runtime.operators
import numpy as np
import torch


def run(G, steps=5):
    x = np.asarray(G.cpu())
    return torch.from_numpy(x @ x.T)
