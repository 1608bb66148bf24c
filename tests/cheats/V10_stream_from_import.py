# expect: rule_violation static.streams
# A private stream, named without a trace of the word in the code that uses it.
# without rules: incorrect rel_norm|finite
import torch
from torch.cuda import Stream as Lane
from torch.cuda import stream as on

lane = Lane()


def run(G, steps=5):
    out = torch.empty_like(G)
    with on(lane):
        out.copy_(G)
    return out
