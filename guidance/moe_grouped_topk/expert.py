"""Group-limited expert selection with load counting: one launch, one pass over the logits, one warp a program.

A program is a single warp that walks over rows; a row of scores lies across its 32 lanes and never leaves the
registers. Nothing crosses a warp, so there is no barrier. Selecting is one long chain of instructions, each waiting for
the one before; other warps fill the wait. So a program has one row at a time, and few registers, which leaves room for
many programs on a multiprocessor. Logits do not wait for the number of valid rows: both are on their way at once, and a
row of padding is selected from like any other, before its result is dropped.

The biased score becomes an integer of the same order, because a warp reduces 32-bit integers in one instruction. Each
of the k rounds makes two such reductions: the largest key, and the lowest expert among those that have it. Neighbours
are sorted in pairs once, and only the better one of a pair takes part, until it is taken and the other one comes to the
front: a round looks at half of the experts.

Taken is whatever does not come after the last choice of its row. These marks, added up over all rows of a program, are
its counts: at the end one add for each expert that it chose, next to each other in memory.

Groups are ranked by counting, for each, how many others come before it; their two largest scores come from one
reduction. The score that a weight needs is not kept next to the biased one: it is computed again, from the k logits
that were chosen.
"""

import torch
import triton
import triton.language as tl

TAKEN = tl.constexpr(-(2**31))
"""Below the key of every finite number."""
ROWS = 1
"""Rows in a block where there are many. More of them make code and registers of a program grow as much."""
PROGRAMS_PER_SM = 16
"""As many as the registers of 384 experts allow for."""


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
def _in_kept_groups(
    biased, KEPT: tl.constexpr,
    ROWS: tl.constexpr, GROUPS: tl.constexpr, SIZE: tl.constexpr,
):  # fmt: skip
    """Which places of [ROWS, GROUPS * SIZE] are in one of the KEPT best groups of their row."""
    by_group = tl.reshape(biased, (ROWS, GROUPS, SIZE))
    none = tl.full((ROWS, GROUPS, SIZE), float("-inf"), tl.float32)
    first, second = tl.reduce((by_group, none), 2, _two_largest)
    score = first + second
    mine = score[:, :, None]
    other = score[:, None, :]
    group = tl.arange(0, GROUPS)
    before = (other > mine) | ((other == mine) & (group[None, None, :] < group[None, :, None]))
    kept = tl.sum(before.to(tl.int32), axis=2) < KEPT
    return tl.reshape(tl.broadcast_to(kept[:, :, None], (ROWS, GROUPS, SIZE)), (ROWS, GROUPS * SIZE))


@triton.jit
def _select(
    logits, bias, weights, ids, load, num_valid, rows, scale,
    E: tl.constexpr, G: tl.constexpr, KEPT: tl.constexpr, K: tl.constexpr,
    GROUPS: tl.constexpr, SIZE: tl.constexpr, SLOTS: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """GROUPS, SIZE and SLOTS are G, E // G and K, rounded up to powers of two: a place is a group and one of it."""
    place = tl.arange(0, GROUPS * SIZE)[None, :]
    expert = place // SIZE * (E // G) + place % SIZE
    real = (place // SIZE < G) & (place % SIZE < E // G)
    even_expert, odd_expert = tl.split(tl.reshape(expert, (1, GROUPS * SIZE // 2, 2)))
    slot = tl.arange(0, SLOTS)[None, :]
    b = tl.load(bias + expert, mask=real, other=0.0)
    valid = tl.minimum(tl.load(num_valid), rows)
    counts = tl.zeros((GROUPS * SIZE,), tl.int32)
    for start in range(tl.program_id(0) * ROWS, rows, tl.num_programs(0) * ROWS):
        row = start + tl.arange(0, ROWS)[:, None]
        live = row < valid
        x = tl.load(logits + row * E + expert, mask=(row < rows) & real, other=0.0)
        biased = tl.where(real, _sigmoid(x) + b, float("-inf"))
        eligible = real
        if KEPT < G:
            eligible = real & _in_kept_groups(biased, KEPT, ROWS, GROUPS, SIZE)
        keys = tl.where(eligible, _ordered(biased), TAKEN)
        # Equal ones stay as they are: the lower expert in front.
        even, odd = tl.split(tl.reshape(keys, (ROWS, GROUPS * SIZE // 2, 2)))
        swapped = odd > even
        front = tl.maximum(even, odd)
        behind = tl.minimum(even, odd)
        candidate = tl.where(swapped, odd_expert, even_expert)
        chosen = tl.zeros((ROWS, SLOTS), tl.int32)
        for j in tl.static_range(K):
            best = tl.max(front, axis=1, keep_dims=True)
            winner = tl.min(tl.where(front == best, candidate, E), axis=1, keep_dims=True)
            won = candidate == winner
            front = tl.where(won, behind, front)
            behind = tl.where(won, TAKEN, behind)
            candidate = tl.where(won, even_expert + odd_expert - candidate, candidate)
            chosen = tl.where(slot == j, winner, chosen)
        taken = (keys > best) | ((keys == best) & (expert <= winner))
        counts += tl.sum((live & taken).to(tl.int32), axis=0)
        used = live & (slot < K)
        s = tl.where(used, _sigmoid(tl.load(logits + row * E + chosen, mask=used, other=0.0)), 0.0)
        w = s / (tl.sum(s, axis=1, keep_dims=True) + 1e-20) * scale
        inside = (row < rows) & (slot < K)
        tl.store(weights + row * K + slot, w, mask=inside)
        tl.store(ids + row * K + slot, tl.where(live, chosen, -1), mask=inside)
    added = tl.reshape(counts, (1, GROUPS * SIZE))
    tl.atomic_add(load + expert, added, mask=real & (added > 0), sem="relaxed")


def run(logits, bias, expert_load, num_valid, n_group, topk_group, topk, routed_scaling):
    rows, experts = logits.shape
    weights = torch.empty((rows, topk), dtype=torch.float32, device=logits.device)
    ids = torch.empty((rows, topk), dtype=torch.int32, device=logits.device)
    multiprocessors = torch.cuda.get_device_properties(logits.device).multi_processor_count if logits.is_cuda else 1
    most = PROGRAMS_PER_SM * multiprocessors
    # Where blocks would leave half of the programs without any, each takes a row: more of them run side by side.
    block = ROWS if 2 * rows >= ROWS * most else 1
    programs = min(triton.cdiv(rows, block), most)
    if rows == 0:
        return weights, ids
    _select[(programs,)](
        logits, bias, weights, ids, expert_load, num_valid, rows, routed_scaling,
        E=experts, G=n_group, KEPT=topk_group, K=topk,
        GROUPS=triton.next_power_of_2(n_group), SIZE=triton.next_power_of_2(experts // n_group),
        SLOTS=triton.next_power_of_2(topk), ROWS=block, num_warps=1,
    )  # fmt: skip
    return weights, ids
