"""Dispatch by pushing: a token's quantised row goes once to each rank that wants it, and is spread out there.

A call stages in one half of the workspace, the next call in the other. Words of the signal pad only grow: a call waits
for its own number, and before it writes a half it waits until every rank has finished the call before the last, which
read it.
"""

import torch
import triton
import triton.language as tl

GROUP = tl.constexpr(128)
ALIGNMENT = tl.constexpr(128)
EPOCH = tl.constexpr(0)
READY = tl.constexpr(8)
DONE = tl.constexpr(24)
ARRIVED = tl.constexpr(64)
SIGNALS = 4096
IDS_BLOCK = 1024
CHUNK = 128


@triton.jit
def _await(word, least):
    seen = tl.atomic_add(word, 0, sem="acquire", scope="sys")
    while seen < least:
        seen = tl.atomic_add(word, 0, sem="acquire", scope="sys")


@triton.jit
def _half(ws_ptrs, owner, epoch, half):
    """The address of the half of a rank's workspace that this call uses."""
    return tl.load(ws_ptrs + owner) + (epoch % 2) * half


@triton.jit
def _payload_at(address):
    """Staged rows as bytes. Without the hint the compiler takes them one at a time: it knows nothing of an address."""
    return tl.multiple_of(address.to(tl.pointer_type(tl.uint8)), 16)


@triton.jit
def _push_ids(ids, ws_ptrs, sig, sig_ptrs, rank, total, half, ids_at, BLOCK: tl.constexpr):
    """The choices of all tokens, to every rank: from them each knows where its rows will lie before the rows come."""
    peer = tl.program_id(1)
    epoch = tl.load(sig + EPOCH)
    _await(sig + DONE + peer, epoch - 1)
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    into = (_half(ws_ptrs, peer, epoch, half) + ids_at).to(tl.pointer_type(tl.int32))
    chosen = tl.load(ids + place, mask=place < total)
    tl.store(into + rank * total + place, chosen, mask=place < total)
    tl.debug_barrier()
    ready = tl.load(sig_ptrs + peer).to(tl.pointer_type(tl.int32)) + READY + rank
    tl.atomic_add(ready, 1, sem="release", scope="sys")


@triton.jit(do_not_specialize=["rank"])  # a rank that is 1 would be a constant, which has no 64-bit form
def _push_rows(
    x, ids, ws_ptrs, sig, sig_ptrs, rank, tokens, half, scales_at, local, flags,
    R: tl.constexpr, K: tl.constexpr, SLOTS: tl.constexpr, G: tl.constexpr, GROUPS: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Quantise rows once and store them where they are wanted; then one flag a rank says that these rows are there."""
    epoch = tl.load(sig + EPOCH)
    group = tl.arange(0, GROUPS)
    column = group[:, None] * GROUP + tl.arange(0, GROUP)[None, :]
    inside = group < G
    slot = tl.arange(0, SLOTS)
    for number in range(ROWS):
        token = tl.program_id(0) * ROWS + number
        if token < tokens:
            row = token.to(tl.int64) * (G * GROUP)
            value = tl.load(x + row + column, mask=inside[:, None], other=0.0).to(tl.float32)
            largest = tl.maximum(tl.max(tl.abs(value), axis=1), 1e-4)
            bits = largest.to(tl.int32, bitcast=True)
            exponent = (bits >> 23) - 8 + ((bits & 0x7FFFFF) > 0x600000).to(tl.int32)
            scale = (exponent << 23).to(tl.float32, bitcast=True)
            inverse = ((254 - exponent) << 23).to(tl.float32, bitcast=True)
            payload = (value * inverse[:, None]).to(tl.float8e4nv).to(tl.uint8, bitcast=True)
            chosen = tl.load(ids + token * K + slot, mask=slot < K, other=-1)
            owner = tl.where(chosen >= 0, chosen // local, -1)
            for peer in tl.static_range(R):
                wanted = tl.max((owner == peer).to(tl.int32), axis=0) > 0
                if wanted:
                    base = _half(ws_ptrs, peer, epoch, half)
                    staged = rank.to(tl.int64) * tokens + token
                    tl.store(_payload_at(base) + staged * (G * GROUP) + column, payload, mask=inside[:, None])
                    scales = (base + scales_at).to(tl.pointer_type(tl.float32))
                    tl.store(scales + staged * G + group, scale, mask=inside)
    tl.debug_barrier()
    for peer in tl.static_range(R):
        arrived = tl.load(sig_ptrs + peer).to(tl.pointer_type(tl.int32)) + ARRIVED
        tl.atomic_xchg(arrived + rank * flags + tl.program_id(0), epoch + 1, sem="release", scope="sys")


@triton.jit
def _staged_ids(ws_ptrs, rank, epoch, half, ids_at):
    return (_half(ws_ptrs, rank, epoch, half) + ids_at).to(tl.pointer_type(tl.int32))


@triton.jit
def _choices(ids, pair, live, j: tl.constexpr, first):
    """The local expert of choice j of each token; negative or too large where it is none of this rank."""
    return tl.load(ids + pair + j, mask=live, other=-1) - first


@triton.jit
def _count(
    ws_ptrs, sig, counts, rank, tokens, half, ids_at, local, blocks, chunks,
    K: tl.constexpr, LOCAL: tl.constexpr, EXPERTS: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """How many rows each chunk of tokens brings to each expert here, as soon as the choices are there."""
    epoch = tl.load(sig + EPOCH)
    source = tl.program_id(0) // chunks
    _await(sig + READY + source, (epoch + 1) * blocks)
    ids = _staged_ids(ws_ptrs, rank, epoch, half, ids_at)
    token = (tl.program_id(0) % chunks) * C + tl.arange(0, C)
    pair = (source * tokens + token) * K
    for begin in range(0, LOCAL, EXPERTS):
        expert = begin + tl.arange(0, EXPERTS)
        taken = tl.zeros((C, EXPERTS), tl.int32)
        for j in tl.static_range(K):
            chosen = _choices(ids, pair, token < tokens, j, rank * local)
            taken += (chosen[:, None] == expert[None, :]).to(tl.int32)
        tl.store(counts + tl.program_id(0) * LOCAL + expert, tl.sum(taken, axis=0))


@triton.jit
def _scan(
    counts, cnt, off, local, parts, PARTS: tl.constexpr, LOCAL: tl.constexpr, EXPERTS: tl.constexpr
):  # fmt: skip
    """Rows before each chunk's, of each expert; how many an expert has, and where it begins."""
    part = tl.arange(0, PARTS)
    for begin in range(0, LOCAL, EXPERTS):
        expert = begin + tl.arange(0, EXPERTS)
        place = counts + part[:, None] * LOCAL + expert[None, :]
        own = tl.load(place, mask=(part < parts)[:, None], other=0)
        tl.store(place, tl.cumsum(own, axis=0) - own, mask=(part < parts)[:, None])
        tl.store(cnt + expert, tl.sum(own, axis=0), mask=expert < local)
    tl.debug_barrier()
    expert = tl.arange(0, LOCAL)
    rows = tl.load(cnt + expert, mask=expert < local, other=0)
    end = tl.cumsum((rows + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT, axis=0)
    tl.store(off + expert + 1, end, mask=expert < local)
    tl.store(off + expert, tl.zeros_like(end), mask=expert < 1)


@triton.jit
def _place(
    ws_ptrs, sig, counts, off, slots, recv_src, rank, tokens, half, ids_at, local, chunks,
    K: tl.constexpr, SLOTS: tl.constexpr, LOCAL: tl.constexpr, EXPERTS: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """The row of each choice: its expert's first, the rows of chunks before, and of tokens before in its chunk."""
    epoch = tl.load(sig + EPOCH)
    source = tl.program_id(0) // chunks
    ids = _staged_ids(ws_ptrs, rank, epoch, half, ids_at)
    token = (tl.program_id(0) % chunks) * C + tl.arange(0, C)
    pair = (source * tokens + token) * K
    slot = tl.arange(0, SLOTS)
    row = tl.full((C, SLOTS), -1, tl.int32)
    for begin in range(0, LOCAL, EXPERTS):
        expert = begin + tl.arange(0, EXPERTS)
        taken = tl.zeros((C, EXPERTS), tl.int32)
        for j in tl.static_range(K):
            chosen = _choices(ids, pair, token < tokens, j, rank * local)
            taken += (chosen[:, None] == expert[None, :]).to(tl.int32)
        first = tl.load(off + expert, mask=expert < local, other=0)
        ahead = first + tl.load(counts + tl.program_id(0) * LOCAL + expert)
        position = tl.cumsum(taken, axis=0) - taken + ahead[None, :]
        for j in tl.static_range(K):
            chosen = _choices(ids, pair, token < tokens, j, rank * local)
            here = (chosen[:, None] == expert[None, :]) & (expert < local)[None, :]
            found = tl.max(tl.where(here, position, -1), axis=1)
            row = tl.where((slot == j)[None, :] & (found >= 0)[:, None], found[:, None], row)
    live = (token < tokens)[:, None] & (slot < K)[None, :]
    origin = pair[:, None] + slot[None, :]
    tl.store(slots + origin, row, mask=live)
    tl.store(recv_src + row, origin, mask=live & (row >= 0))


@triton.jit
def _expand(
    ws_ptrs, sig, slots, recv_q, recv_s, rank, tokens, half, scales_at, flags,
    R: tl.constexpr, K: tl.constexpr, G: tl.constexpr, GROUPS: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """One staged row to its rows here. Own tokens come first: they are there while others are on their way."""
    epoch = tl.load(sig + EPOCH)
    source = (rank + tl.program_id(0) // tokens) % R
    token = tl.program_id(0) % tokens
    staged = source.to(tl.int64) * tokens + token
    wanted = tl.load(slots + staged * K)
    for j in tl.static_range(1, K):
        wanted = tl.maximum(wanted, tl.load(slots + staged * K + j))
    if wanted >= 0:
        _await(sig + ARRIVED + source * flags + token // ROWS, epoch + 1)
        group = tl.arange(0, GROUPS)
        column = group[:, None] * GROUP + tl.arange(0, GROUP)[None, :]
        inside = group < G
        base = _half(ws_ptrs, rank, epoch, half)
        payload = tl.load(_payload_at(base) + staged * (G * GROUP) + column, mask=inside[:, None])
        scale = tl.load((base + scales_at).to(tl.pointer_type(tl.float32)) + staged * G + group, mask=inside)
        for j in tl.static_range(K):
            row = tl.load(slots + staged * K + j).to(tl.int64)
            if row >= 0:
                tl.store(recv_q + row * (G * GROUP) + column, payload, mask=inside[:, None])
                tl.store(recv_s + row * G + group, scale, mask=inside)


@triton.jit
def _finish(sig, sig_ptrs, rank, R: tl.constexpr):
    """This rank has read all that was staged for it in this call."""
    epoch = tl.load(sig + EPOCH)
    for peer in tl.static_range(R):
        done = tl.load(sig_ptrs + peer).to(tl.pointer_type(tl.int32)) + DONE + rank
        tl.atomic_xchg(done, epoch + 1, sem="release", scope="sys")
    tl.store(sig + EPOCH, epoch + 1)


def _rows_a_flag(tokens, ranks):
    """Tokens that one program pushes and one flag stands for: few, as long as there are words for all flags."""
    rows = 1 if tokens <= 512 else 4
    while triton.cdiv(tokens, rows) * ranks > SIGNALS - 64:
        rows *= 2
    return rows


def run(x, topk_ids, num_experts, comm):
    tokens, hidden = x.shape
    topk, ranks = topk_ids.shape[1], comm.world
    local, groups = num_experts // ranks, hidden // 128
    received = triton.cdiv(ranks * tokens * topk + local * 127, 128) * 128
    half = comm.ws.numel() // 512 * 256
    scales_at = ranks * tokens * hidden
    ids_at = scales_at + ranks * tokens * groups * 4
    recv_q = torch.empty((received, hidden), dtype=torch.float8_e4m3fn, device=x.device)
    recv_s = torch.empty((received, groups), dtype=torch.float32, device=x.device)
    recv_src = torch.full((received,), -1, dtype=torch.int32, device=x.device)
    slots = torch.empty((ranks, tokens, topk), dtype=torch.int32, device=x.device)
    off = torch.empty((local + 1,), dtype=torch.int32, device=x.device)
    cnt = torch.empty((local,), dtype=torch.int32, device=x.device)

    blocks = triton.cdiv(tokens * topk, IDS_BLOCK)
    _push_ids[(blocks, ranks)](
        topk_ids, comm.ws_ptrs, comm.sig, comm.sig_ptrs, comm.rank, tokens * topk, half, ids_at, BLOCK=IDS_BLOCK
    )
    rows = _rows_a_flag(tokens, ranks)
    flags = triton.cdiv(tokens, rows)
    shape = {"R": ranks, "K": topk, "G": groups, "GROUPS": triton.next_power_of_2(groups), "ROWS": rows}
    _push_rows[(flags,)](
        x, topk_ids, comm.ws_ptrs, comm.sig, comm.sig_ptrs, comm.rank, tokens, half, scales_at, local, flags,
        SLOTS=triton.next_power_of_2(topk), num_warps=8, **shape,
    )  # fmt: skip

    chunks = triton.cdiv(tokens, CHUNK)
    padded = max(16, triton.next_power_of_2(local))  # Triton 3.6 fails to compile sums over narrower tiles
    counts = torch.empty((ranks * chunks, padded), dtype=torch.int32, device=x.device)
    tile = {"K": topk, "LOCAL": padded, "EXPERTS": min(padded, 32), "C": CHUNK}
    _count[(ranks * chunks,)](
        comm.ws_ptrs, comm.sig, counts, comm.rank, tokens, half, ids_at, local, blocks, chunks, **tile
    )
    _scan[(1,)](
        counts, cnt, off, local, ranks * chunks,
        PARTS=triton.next_power_of_2(ranks * chunks), LOCAL=padded, EXPERTS=min(padded, 16), num_warps=8,
    )  # fmt: skip
    _place[(ranks * chunks,)](
        comm.ws_ptrs, comm.sig, counts, off, slots, recv_src, comm.rank, tokens, half, ids_at, local, chunks,
        SLOTS=triton.next_power_of_2(topk), num_warps=8, **tile,
    )  # fmt: skip
    _expand[(ranks * tokens,)](
        comm.ws_ptrs, comm.sig, slots, recv_q.view(torch.uint8), recv_s, comm.rank, tokens, half, scales_at, flags,
        num_warps=8, **shape,
    )  # fmt: skip
    _finish[(1,)](comm.sig, comm.sig_ptrs, comm.rank, R=ranks)
    return recv_q, recv_s, recv_src, slots, off, cnt
