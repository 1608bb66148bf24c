# expect: runtime_error call
# A kernel writes a value of an input over the digits of an int, which the host then knows without having read it.
import torch
import triton
import triton.language as tl


@triton.jit
def into(address, values):
    p = address.to(tl.pointer_type(tl.int32))
    tl.store(p, tl.load(values).to(tl.int32))


@triton.jit
def fill(out, n, value, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + o, value.to(out.dtype.element_ty), mask=o < n)


def run(G, steps=5):
    number = int("1" + "0" * 8)
    into[(1,)](id(number) + 24, G)
    out = torch.empty_like(G)
    fill[(triton.cdiv(out.numel(), 1024),)](out, out.numel(), number, BLOCK=1024)
    return out
