"""Group-limited expert selection with load counting: a warp for each row, then a count of what all of them chose.

A program is a single warp with one row, whose scores lie across its 32 lanes and never leave the registers. Nothing
crosses a warp, so there is no barrier. Selecting is one long chain of instructions, each waiting for the one before;
other warps fill the wait, so a program keeps to few registers, which leaves room for many on a multiprocessor. Logits
do not wait for the number of valid rows: both are on their way at once, and a row of padding is selected from like any
other, before its result is dropped.

The biased score becomes an integer of the same order, because a warp reduces 32-bit integers in one instruction. Each
of the k rounds makes two such reductions: the largest key, and the lowest expert among those that have it. Neighbours
are sorted in pairs once, and only the better one of a pair takes part, until it is taken and the other one comes to the
front: a round looks at half of the experts.

Groups are ranked by counting, for each, how many others come before it; their two largest scores come from one
reduction. The score that a weight needs is not kept next to the biased one: it is computed again, from the k logits
that were chosen.

All counters lie within a few cache lines, where additions of thousands of warps would take longer than all the rest. So
a second launch counts: a program has a histogram of a thousand ids in shared memory, and adds it up in whole sectors.
Few rows are counted as they are selected, before another launch could begin.
"""

import torch
import triton
import triton.language as tl

TAKEN = tl.constexpr(-(2**31))
"""Below the key of every finite number."""
FEW_ROWS_PER_SM = 8
"""With no more rows than that, each adds its choices to the counters by itself."""
COUNTED_IDS = 1024
"""Of a program that counts. More of them take longer, fewer add more often."""


@triton.jit
def _sigmoid(x):
    return 1.0 / (1.0 + tl.exp(-x))


@triton.jit
def _ordered(x):
    """Float32 as int32 of the same order."""
    bits = x.to(tl.int32, bitcast=True)
    return bits ^ ((bits >> 31) & 0x7FFFFFFF)


@triton.jit
def _two_largest(first, second, other_first, other_second):
    return tl.maximum(first, other_first), tl.maximum(tl.minimum(first, other_first), tl.maximum(second, other_second))


@triton.jit
def _in_kept_groups(biased, KEPT: tl.constexpr, GROUPS: tl.constexpr, SIZE: tl.constexpr):
    """Which places of [GROUPS * SIZE] are in one of the KEPT best groups."""
    by_group = tl.reshape(biased, (GROUPS, SIZE))
    none = tl.full((GROUPS, SIZE), float("-inf"), tl.float32)
    first, second = tl.reduce((by_group, none), 1, _two_largest)
    score = first + second
    mine = score[:, None]
    other = score[None, :]
    group = tl.arange(0, GROUPS)
    before = (other > mine) | ((other == mine) & (group[None, :] < group[:, None]))
    kept = tl.sum(before.to(tl.int32), axis=1) < KEPT
    return tl.reshape(tl.broadcast_to(kept[:, None], (GROUPS, SIZE)), (GROUPS * SIZE,))


@triton.jit
def _select(
    logits, bias, weights, ids, load, num_valid, scale,
    E: tl.constexpr, G: tl.constexpr, KEPT: tl.constexpr, K: tl.constexpr,
    GROUPS: tl.constexpr, SIZE: tl.constexpr, SLOTS: tl.constexpr, COUNTS: tl.constexpr,
):  # fmt: skip
    """GROUPS, SIZE and SLOTS are G, E // G and K, rounded up to powers of two: a place is a group and one of it."""
    row = tl.program_id(0).to(tl.int64)
    place = tl.arange(0, GROUPS * SIZE)
    expert = place // SIZE * (E // G) + place % SIZE
    real = (place // SIZE < G) & (place % SIZE < E // G)
    x = tl.load(logits + row * E + expert, mask=real, other=0.0)
    live = row < tl.load(num_valid)
    biased = tl.where(real, _sigmoid(x) + tl.load(bias + expert, mask=real, other=0.0), float("-inf"))
    eligible = real
    if KEPT < G:
        eligible = real & _in_kept_groups(biased, KEPT, GROUPS, SIZE)
    keys = tl.where(eligible, _ordered(biased), TAKEN)
    # Equal ones stay as they are: the lower expert in front.
    even, odd = tl.split(tl.reshape(keys, (GROUPS * SIZE // 2, 2)))
    even_expert, odd_expert = tl.split(tl.reshape(expert, (GROUPS * SIZE // 2, 2)))
    swapped = odd > even
    front = tl.maximum(even, odd)
    behind = tl.minimum(even, odd)
    candidate = tl.where(swapped, odd_expert, even_expert)
    slot = tl.arange(0, SLOTS)
    chosen = tl.zeros((SLOTS,), tl.int32)
    for j in tl.static_range(K):
        best = tl.max(front, axis=0)
        winner = tl.min(tl.where(front == best, candidate, E), axis=0)
        won = candidate == winner
        front = tl.where(won, behind, front)
        behind = tl.where(won, TAKEN, behind)
        candidate = tl.where(won, even_expert + odd_expert - candidate, candidate)
        chosen = tl.where(slot == j, winner, chosen)
    used = live & (slot < K)
    s = tl.where(used, _sigmoid(tl.load(logits + row * E + chosen, mask=used, other=0.0)), 0.0)
    w = s / (tl.sum(s, axis=0) + 1e-20) * scale
    tl.store(weights + row * K + slot, w, mask=slot < K)
    tl.store(ids + row * K + slot, tl.where(live, chosen, -1), mask=slot < K)
    if COUNTS:
        tl.atomic_add(load + chosen, 1, mask=used, sem="relaxed")


@triton.jit
def _count(ids, load, total, E: tl.constexpr, BINS: tl.constexpr, BLOCK: tl.constexpr):
    """BINS is E, rounded up to a power of two. Ids of padding, -1, are counted nowhere."""
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    chosen = tl.load(ids + place, mask=place < total, other=-1)
    counts = tl.histogram(chosen, BINS, mask=chosen >= 0)
    expert = tl.arange(0, BINS)
    tl.atomic_add(load + expert, counts, mask=(expert < E) & (counts > 0), sem="relaxed")


def run(logits, bias, expert_load, num_valid, n_group, topk_group, topk, routed_scaling):
    rows, experts = logits.shape
    weights = torch.empty((rows, topk), dtype=torch.float32, device=logits.device)
    ids = torch.empty((rows, topk), dtype=torch.int32, device=logits.device)
    if rows == 0:
        return weights, ids
    multiprocessors = torch.cuda.get_device_properties(logits.device).multi_processor_count if logits.is_cuda else 1
    few = rows <= FEW_ROWS_PER_SM * multiprocessors
    _select[(rows,)](
        logits, bias, weights, ids, expert_load, num_valid, routed_scaling,
        E=experts, G=n_group, KEPT=topk_group, K=topk,
        GROUPS=triton.next_power_of_2(n_group), SIZE=triton.next_power_of_2(experts // n_group),
        SLOTS=triton.next_power_of_2(topk), COUNTS=few, num_warps=1,
    )  # fmt: skip
    if not few:
        _count[(triton.cdiv(rows * topk, COUNTED_IDS),)](
            ids, expert_load, rows * topk,
            E=experts, BINS=triton.next_power_of_2(experts), BLOCK=COUNTED_IDS, num_warps=8,
        )  # fmt: skip
    return weights, ids
