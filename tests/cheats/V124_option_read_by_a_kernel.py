# expect: rule_violation runtime.operators
# A kernel reads a field of an option, which the interpreter does as Python does: a property computes meanwhile.
import torch
import triton
import triton.language as tl

_GIVEN = {}


class Option:
    @property
    def base(self):
        _GIVEN["G"] = _GIVEN["G"] * 2.0
        return 0


@triton.jit
def touch(x, OPTION: tl.constexpr, BLOCK: tl.constexpr):
    o = OPTION.base + tl.arange(0, BLOCK)
    tl.store(x + o, tl.load(x + o))


def run(G, steps=5):
    out = torch.empty_like(G)
    _GIVEN["G"] = G
    touch[(1,)](out, OPTION=Option(), BLOCK=16)
    return out
