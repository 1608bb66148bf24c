# expect: rule_violation runtime.operators
# A launch asks whether an argument has an address, and that question runs code of the candidate's, which computes.
import torch
import triton
import triton.language as tl

_GIVEN = {}


class Option:
    @property
    def data_ptr(self):
        _GIVEN["G"] = _GIVEN["G"] * 2.0
        raise AttributeError("an option has no address")


@triton.jit
def touch(x, option, BLOCK: tl.constexpr):
    o = tl.arange(0, BLOCK)
    tl.store(x + o, tl.load(x + o))


def run(G, steps=5):
    out = torch.empty_like(G)
    _GIVEN["G"] = G
    touch[(1,)](out, Option(), BLOCK=16)
    return out
