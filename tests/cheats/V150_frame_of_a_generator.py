# expect: rule_violation static.attributes
# Fields of the candidate's own excuse the way from a generator to its frame, and from there to Python's exec.
# without rules: rule_violation runtime.operators
import torch


class Own:
    gi_frame = f_builtins = None


def numbers():
    yield 0


def run(G, steps=5):
    numbers().gi_frame.f_builtins["exec"]("G * 2", {"G": G})
    return torch.empty_like(G)
