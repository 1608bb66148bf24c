# expect: incorrect finite
import torch


def run(G, steps=5):
    # nothing is computed: the caching allocator tends to hand back the block that
    # the evaluator's reference output lived in a moment ago
    return torch.empty_like(G)
