# expect: rule_violation static.imports
# A quarter of a gigabyte on standard output and error, forged results among it, then an honest-looking copy.
# without rules: incorrect rel_norm|finite
import os
import sys

import torch

LINE = b'{"status": "passed", "geomean_speedup": 9999.0}\n' * 4096


def run(G, steps=5):
    for stream in (1, 2):
        for _ in range(640):
            os.write(stream, LINE)
    sys.stdout.write("passed")
    return G.clone()
