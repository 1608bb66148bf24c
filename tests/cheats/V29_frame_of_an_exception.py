# expect: rule_violation static.reflection
# The caller's frames, by way of a traceback.
# without rules: incorrect rel_norm
import torch


def run(G, steps=5):
    try:
        raise ValueError
    except ValueError as problem:
        frame = problem.__traceback__.tb_frame.f_back
        return frame.f_locals.get("expected", torch.zeros_like(G))
