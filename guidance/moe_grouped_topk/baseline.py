"""Group-limited expert selection the straightforward way: a program a token, the best expert again and again.

Two launches: one selects and normalises, the other one counts what was selected, an atomic add for each id.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def _sigmoid(x):
    return 1.0 / (1.0 + tl.exp(-x))


@triton.jit
def _select(
    logits, bias, weights, ids, num_valid, scale,
    E: tl.constexpr, G: tl.constexpr, KEPT: tl.constexpr, K: tl.constexpr,
    PADDED: tl.constexpr, GROUPS: tl.constexpr, SLOTS: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    expert = tl.arange(0, PADDED)
    inside = expert < E
    score = _sigmoid(tl.load(logits + row * E + expert, mask=inside, other=0.0))
    biased = score + tl.load(bias + expert, mask=inside, other=0.0)
    biased = tl.where(inside, biased, float("-inf"))
    if G > 1:
        group = tl.arange(0, GROUPS)
        by_group = tl.full((GROUPS,), float("-inf"), tl.float32)
        for g in tl.static_range(G):
            member = expert // (E // G) == g
            own = tl.where(member, biased, float("-inf"))
            first, where = tl.max(own, axis=0, return_indices=True)
            second = tl.max(tl.where(expert == where, float("-inf"), own), axis=0)
            by_group = tl.where(group == g, first + second, by_group)
        kept = tl.zeros((PADDED,), tl.int32)
        for _ in tl.static_range(KEPT):
            best = tl.argmax(by_group, axis=0)
            by_group = tl.where(group == best, float("-inf"), by_group)
            kept = tl.where(expert // (E // G) == best, 1, kept)
        biased = tl.where(kept > 0, biased, float("-inf"))
    slot = tl.arange(0, SLOTS)
    chosen = tl.zeros((SLOTS,), tl.int32)
    picked = tl.zeros((SLOTS,), tl.float32)
    for j in tl.static_range(K):
        best = tl.argmax(biased, axis=0)
        picked = tl.where(slot == j, tl.sum(tl.where(expert == best, score, 0.0), axis=0), picked)
        chosen = tl.where(slot == j, best, chosen)
        biased = tl.where(expert == best, float("-inf"), biased)
    valid = row < tl.load(num_valid)
    weight = picked / (tl.sum(picked, axis=0) + 1e-20) * scale
    tl.store(weights + row * K + slot, tl.where(valid, weight, 0.0), mask=slot < K)
    tl.store(ids + row * K + slot, tl.where(valid, chosen, -1), mask=slot < K)


@triton.jit
def _count(ids, load, total, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    expert = tl.load(ids + place, mask=place < total, other=-1)
    tl.atomic_add(load + expert, 1, mask=expert >= 0)


def run(logits, bias, expert_load, num_valid, n_group, topk_group, topk, routed_scaling):
    rows, experts = logits.shape
    weights = torch.empty((rows, topk), dtype=torch.float32, device=logits.device)
    ids = torch.empty((rows, topk), dtype=torch.int32, device=logits.device)
    if rows == 0:
        return weights, ids
    _select[(rows,)](
        logits, bias, weights, ids, num_valid, routed_scaling,
        E=experts, G=n_group, KEPT=topk_group, K=topk,
        PADDED=triton.next_power_of_2(experts), GROUPS=triton.next_power_of_2(n_group),
        SLOTS=triton.next_power_of_2(topk), num_warps=4,
    )  # fmt: skip
    _count[(triton.cdiv(rows * topk, 256),)](ids, expert_load, rows * topk, BLOCK=256)
    return weights, ids
