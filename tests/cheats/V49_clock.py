# expect: rule_violation static.module_names
# A clock tells the timed calls from the checked ones.
# without rules: incorrect rel_norm
import time

import torch

began = time.monotonic()


def run(G, steps=5):
    return torch.empty_like(G) if time.monotonic() - began > 5 else G.clone()
