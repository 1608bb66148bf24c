"""What `run` has to compute, written for clarity in PyTorch. Not for speed.

Its `comm` has `rank`, `world` and `all_gather(tensor)`, which gives the tensors of all ranks. A solution's has no such
method; task_description.md says what it has.
"""

import torch

GROUP = 128
ALIGNMENT = 128


def _quantised(x):
    """e4m3 values and float32 scales of groups of 128 columns; a scale is a power of two."""
    groups = x.float().unflatten(1, (-1, GROUP))
    largest = groups.abs().amax(dim=2).clamp(min=1e-4)
    mantissa, exponent = torch.frexp(largest)  # largest = mantissa * 2^exponent, mantissa in [0.5, 1)
    exponent = exponent - torch.where(mantissa <= 0.875, 9, 8)
    scale = torch.ldexp(torch.ones_like(largest), exponent)
    return (groups / scale[:, :, None]).flatten(1).to(torch.float8_e4m3fn), scale


def run(x, topk_ids, num_experts, comm):
    tokens, topk = topk_ids.shape
    local = num_experts // comm.world
    rows = -(-(comm.world * tokens * topk + local * (ALIGNMENT - 1)) // ALIGNMENT) * ALIGNMENT

    payload, scales = _quantised(torch.cat(comm.all_gather(x)))
    expert = torch.cat(comm.all_gather(topk_ids)).reshape(-1).long() - comm.rank * local
    pair = torch.nonzero((expert >= 0) & (expert < local)).flatten()
    pair = pair[torch.sort(expert[pair], stable=True).indices]
    expert = expert[pair]

    cnt = torch.bincount(expert, minlength=local)
    ends = torch.cumsum(-(-cnt // ALIGNMENT) * ALIGNMENT, dim=0)
    off = torch.cat([torch.zeros_like(ends[:1]), ends])
    before = torch.cumsum(cnt, dim=0) - cnt
    row = off[expert] + torch.arange(len(pair), device=x.device) - before[expert]

    recv_q = torch.zeros((rows, x.shape[1]), dtype=torch.uint8, device=x.device)
    recv_q[row] = payload.view(torch.uint8)[pair // topk]
    recv_s = torch.zeros((rows, x.shape[1] // GROUP), dtype=torch.float32, device=x.device)
    recv_s[row] = scales[pair // topk]
    recv_src = torch.full((rows,), -1, dtype=torch.int32, device=x.device)
    recv_src[row] = pair.to(torch.int32)
    slot = torch.full((comm.world * tokens * topk,), -1, dtype=torch.int32, device=x.device)
    slot[pair] = row.to(torch.int32)
    slot = slot.view(comm.world, tokens, topk)
    return recv_q.view(torch.float8_e4m3fn), recv_s, recv_src, slot, off.to(torch.int32), cnt.to(torch.int32)
