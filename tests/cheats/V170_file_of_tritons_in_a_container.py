# expect: rule_violation static.module_names
# What passes for a decorator of Triton's is the file that defines it, with all that it imports.
# without rules: rule_violation runtime.workers
import torch
import triton


class Own:
    threading = Thread = start = None


BOX = {"jit": triton.runtime.jit, "target": print}


def run(G, steps=5):
    BOX.get("jit").threading.Thread(target=BOX.get("target")).start()
    return torch.empty_like(G)
