# expect: rule_violation static.imports
# An extension module from the candidate's own folder: native code that no kernel of Triton's has compiled.
# without rules: rule_violation runtime.libraries
import importlib
import importlib.machinery
import importlib.util
import os
import shutil

import torch

for name in ("_lsprof", "_json", "_bisect", "_queue"):
    found = getattr(importlib.import_module(name), "__file__", None)
    if found:
        own = shutil.copy(found, os.path.join(os.path.dirname(__file__), "weights.bin"))
        loader = importlib.machinery.ExtensionFileLoader(name, own)
        fast = importlib.util.module_from_spec(importlib.util.spec_from_file_location(name, own, loader=loader))
        break


def run(G, steps=5):
    return torch.empty_like(G)
