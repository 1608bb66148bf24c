# expect: rule_violation static.imports
# Frames of a result are written into every descriptor that the process holds: one of them is the supervisor's.
# without rules: ended_early|incorrect -
import os
import struct

import torch


def run(G, steps=5):
    told = b'{"outputs": [], "peak_bytes": 0, "copied_bytes": 0, "wall_ns": 1, "foreign": ""}'
    for descriptor in range(3, 64):
        try:
            os.write(descriptor, struct.pack("<cI", b"D", len(told)) + told)
        except OSError:
            pass
    return torch.zeros_like(G)
