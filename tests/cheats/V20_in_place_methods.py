# expect: rule_violation static.tensor_methods
# No operator and no function: methods that write into their own tensor.
# without rules: rule_violation runtime.operators
import torch


def run(G, steps=5):
    out = torch.empty_like(G)
    out.copy_(G)
    out.baddbmm_(G, G.mT, beta=0.0)
    out.div_(2.0).mul_(3.0)
    return out
