# expect: rule_violation static.imports
# A daemon thread fills the result in after run() has returned.
# without rules: rule_violation runtime.workers
import threading
import time

import torch


def fill(source, out):
    time.sleep(0.01)
    out.copy_(source)


def run(G, steps=5):
    out = torch.empty_like(G)
    threading.Thread(target=fill, args=(G, out), daemon=True).start()
    return out
