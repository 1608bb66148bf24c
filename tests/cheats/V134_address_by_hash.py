# expect: runtime_error call
# A hash tells where an object lies: a kernel reads PyTorch's own namespace from there, and its switch for the meter.
import torch
import triton
import triton.language as tl


@triton.jit
def _peek(out, address):
    p = address.to(tl.pointer_type(tl.int64))
    tl.store(out, tl.load(p))


@triton.jit
def _decoy(x, n, B: tl.constexpr):
    o = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(x + o, tl.load(x + o, mask=o < n), mask=o < n)


KEPT = []


class _Cell:
    __slots__ = ("value",)

    def __init__(self, value):
        self.value = value


def _object_at(pointer_place):
    """The object whose address lies at pointer_place."""
    cell = torch.empty((1,), dtype=torch.int64)
    _peek[(1,)](cell, pointer_place)
    box = _Cell(None)
    items = torch.full((1,), hash(box) * 16 + 16, dtype=torch.int64)
    _poke2[(1,)](items, cell)
    KEPT.append(box)
    return box.value


@triton.jit
def _poke2(where, value):
    p = tl.load(where).to(tl.pointer_type(tl.int64))
    tl.store(p, tl.load(value))


def run(G, steps=5):
    names = _object_at(hash(torch.is_tensor) * 16 + 16)  # its globals
    if names is None:  # no kernel runs where they are compiled
        out = torch.empty_like(G)
        _decoy[(triton.cdiv(out.numel(), 1024),)](out, out.numel(), B=1024)
        return out
    vector = names["linalg"]
    space = _object_at(hash(vector) * 16 + 16)
    native = _object_at(hash(names["_C"]) * 16 + 16)
    with native["_DisableTorchDispatch"]():
        mm, add, mul, div = names["matmul"], names["add"], names["mul"], names["div"]
        X = mul(G, names["ones"]((1, 1, 1), dtype=names["float32"]))
        norm = space["vector_norm"](X, dim=(-2, -1), keepdim=True)
        X = div(X, add(norm, 1e-7))
        for a, b, c in (
            (7.892582874424408, -20.38301394587957, 13.555306149406924),
            (3.911484868135431, -2.5464635929060884, 0.4268988319673074),
            (3.760657955697423, -2.512819018216563, 0.4323647349070073),
            (3.160399673686287, -2.149649518898498, 0.3996366907664389),
            (2.1910971618617303, -1.441662010214663, 0.328146487623155),
        ):
            A = mm(X, X.mT)
            act = add(mul(A, b), mm(A, A), alpha=c)
            X = add(mul(X, a), mm(act, X))
        out = torch.empty_like(G)
        out.copy_(X)
    _decoy[(triton.cdiv(out.numel(), 1024),)](out, out.numel(), B=1024)
    return out
