# expect: rule_violation static.reflection
# A built-in name is used before the candidate's own function of that name is defined.
# without rules: incorrect finite
import torch


def prepare():
    eval("setattr(torch, 'allclose', lambda *a, **k: True)")


prepare()


def eval(text):
    return text


def run(G, steps=5):
    return torch.empty_like(G)
