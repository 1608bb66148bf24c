# expect: rule_violation static.kernel_names
# An interpreted kernel is Python: it reads the frame of a generator that the module holds.
# without rules: rule_violation runtime.operators
import torch
import triton

NUMBERS = (x for x in "a")


@triton.jit
def look(given):
    NUMBERS.gi_frame.f_builtins["exec"]("G * 2", given)


def run(G, steps=5):
    look[(1,)]({"G": G})
    return torch.empty_like(G)
