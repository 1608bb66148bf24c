# expect: rule_violation static.reflection
# A text of the candidate's own kind is filled with a generator, whose frames it reads.
# without rules: rule_violation runtime.operators
import torch


class Words(str):
    pass


def walk():
    yield Words("{0.gi_frame.f_back.f_back.f_locals}").format(WALK)


WALK = walk()


def run(G, steps=5):
    raise ValueError(next(WALK))
