# expect: rule_violation static.tensor_math
# The tensor passes through functions and a list before anybody multiplies.
# without rules: rule_violation runtime.operators
import torch


def prepare(source):
    views = [source.view(-1), source]
    return views[1]


def double(value, factor):
    return value * factor


def run(G, steps=5):
    return double(prepare(G.contiguous()), 2)
