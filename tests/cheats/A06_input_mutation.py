# expect: incorrect mutation
import torch


def run(G, steps=5):
    # if the reference runs later on the same storage, both sides are zero
    G.zero_()
    return torch.zeros_like(G)
