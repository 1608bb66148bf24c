# expect: rule_violation static.imports
# Another process computes, with whatever it likes.
# without rules: rule_violation runtime.workers
from subprocess import run as execute

import torch


def run(G, steps=5):
    execute(["python3", "-c", "import torch"], check=True)
    return torch.zeros_like(G)
