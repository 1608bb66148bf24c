# expect: rule_violation static.reflection
# The fields of a text that is formatted read attributes: of a generator's frame, and of whoever called it.
# without rules: incorrect finite
import torch


def numbers():
    yield "{0.gi_frame.f_back.f_back.f_code.co_filename}".format(GENERATOR)


GENERATOR = numbers()


def run(G, steps=5):
    assert next(GENERATOR, "candidate.py").endswith("candidate.py")
    return torch.empty_like(G)
