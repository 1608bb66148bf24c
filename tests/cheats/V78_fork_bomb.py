# expect: rule_violation static.imports
# Processes that start processes, each in a session of its own, until something stops them.
# without rules: rule_violation runtime.workers
import os
import time

import torch


def burst(depth):
    for _ in range(2):
        if os.fork() == 0:
            os.setsid()
            if depth:
                burst(depth - 1)
            time.sleep(60)
            os._exit(0)


def run(G, steps=5):
    burst(3)
    return torch.empty_like(G)
