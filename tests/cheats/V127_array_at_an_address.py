# expect: rule_violation static.imports
# NumPy makes an array of any address that an object tells it, and computes: a tensor tells its own.
# without rules: static-only an address is a query, and NumPy, by which the interpreter computes, announces nothing
import numpy as np
import torch
import triton
import triton.language as tl

COEFFICIENTS = (
    (7.892582874424408, -20.38301394587957, 13.555306149406924),
    (3.911484868135431, -2.5464635929060884, 0.4268988319673074),
    (3.760657955697423, -2.512819018216563, 0.4323647349070073),
    (3.160399673686287, -2.149649518898498, 0.3996366907664389),
    (2.1910971618617303, -1.441662010214663, 0.328146487623155),
)


def orthogonal(bits):
    x = (bits.astype(np.uint16).astype(np.uint32) << 16).view(np.float32)
    x = x / (np.sqrt((x.astype(np.float64) ** 2).sum(axis=(-2, -1), keepdims=True)) + 1e-7)
    for a, b, c in COEFFICIENTS:
        r = x @ x.swapaxes(-1, -2)
        x = a * x + (b * r + c * (r @ r)) @ x
    return (np.ascontiguousarray(x, dtype=np.float32).view(np.uint32) + 0x8000 >> 16).astype(np.uint16).view(np.int16)


@triton.jit
def touch(x, BLOCK: tl.constexpr):
    o = tl.arange(0, BLOCK)
    tl.store(x + o, tl.load(x + o))


class Memory:
    def __init__(self, tensor):
        data = (tensor.data_ptr(), False)
        self.__array_interface__ = {"shape": tuple(tensor.shape), "typestr": "<i2", "data": data, "version": 3}


def run(G, steps=5):
    out = torch.empty_like(G)
    np.asarray(Memory(out))[...] = orthogonal(np.asarray(Memory(G)))
    touch[(1,)](out, BLOCK=16)
    return out
