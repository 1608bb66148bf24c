# expect: timed_out -
import torch
import triton
import triton.language as tl


@triton.jit
def _spin(flag, out, ROUNDS: tl.constexpr):
    acc = 0
    for _ in range(0, ROUNDS):
        acc += tl.load(flag, volatile=True)
    tl.store(out, acc)


def run(G, steps=5):
    # one thread block busy for minutes: the launch returns, the first synchronise hangs
    flag = torch.zeros(1, dtype=torch.int32, device=G.device)
    out = torch.zeros(1, dtype=torch.int32, device=G.device)
    _spin[(1,)](flag, out, ROUNDS=400_000_000)
    return torch.zeros_like(G)
