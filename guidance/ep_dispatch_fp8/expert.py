"""Dispatch by pushing: a token's quantised row goes once to each rank that wants it, and is spread out there.

Choices travel first, with their counts, and from them every rank knows all of its rows' places before a row moves: own
rows are stored where they end, straight from the registers that quantised them.

No rank says that it has read what others staged. Who sends choices of a call has finished the call before, and nobody
sends a row, or ends a call, before the choices of all have come. So rows never meet unread ones, and choices do not
either, in the halves of the workspace that calls use in turn. Words that ranks wait for only grow: those of rows are
numbers of calls, those of choices count the programs that have sent some, as many in every call on one signal pad.
"""

import torch
import triton
import triton.language as tl

GROUP = tl.constexpr(128)
ALIGNMENT = tl.constexpr(128)
EPOCH = tl.constexpr(0)
LEFT = tl.constexpr(1)
TICKET = tl.constexpr(2)
READY = tl.constexpr(8)
ARRIVED = tl.constexpr(16)
FLAGS = 4096 - 16
FILL_BLOCK = tl.constexpr(1024)
PARTS_BLOCK = tl.constexpr(32)
LEAD = tl.constexpr(264)


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
def _choices(ids, pair, live, j: tl.constexpr, first):
    """The local expert of choice j of each token, where a rank's begin at `first`; negative or too large elsewhere."""
    return tl.load(ids + pair + j, mask=live, other=-1) - first


@triton.jit
def _taken(ids, pair, live, first, expert, K: tl.constexpr):
    """1 where a token chose an expert of a rank, else 0: tokens by experts."""
    taken = (_choices(ids, pair, live, 0, first)[:, None] == expert[None, :]).to(tl.int32)
    for j in tl.static_range(1, K):
        taken += (_choices(ids, pair, live, j, first)[:, None] == expert[None, :]).to(tl.int32)
    return taken


@triton.jit
def _push_choices(
    ids, ws_ptrs, sig, sig_ptrs, recv_src, rank, tokens, half, ids_at, counts_at, local, received,
    K: tl.constexpr, LOCAL: tl.constexpr, C: tl.constexpr, PAIRS: tl.constexpr,
):  # fmt: skip
    """The choices of a chunk of tokens, to every rank, and how often each of its experts is among them.

    From these a rank knows where its rows will lie before they come. On the way all rows are marked as padding.
    """
    chunk, chunks, peer = tl.program_id(0), tl.num_programs(0), tl.program_id(1)
    epoch = tl.load(sig + EPOCH)
    base = _half(ws_ptrs, peer, epoch, half)
    token = chunk * C + tl.arange(0, C)
    expert = tl.arange(0, LOCAL)
    taken = _taken(ids, token * K, token < tokens, peer * local, expert, K)
    counts = (base + counts_at).to(tl.pointer_type(tl.int32)) + (rank * chunks + chunk) * LOCAL
    tl.store(counts + expert, tl.sum(taken, axis=0))
    inside = tl.arange(0, PAIRS)
    pair = chunk * C * K + inside
    here = (inside < C * K) & (pair < tokens * K)
    into = (base + ids_at).to(tl.pointer_type(tl.int32)) + rank * tokens * K
    tl.store(into + pair, tl.load(ids + pair, mask=here), mask=here)
    tl.debug_barrier()
    ready = tl.load(sig_ptrs + peer).to(tl.pointer_type(tl.int32)) + READY + rank
    tl.atomic_add(ready, 1, sem="release", scope="sys")
    program = chunk * tl.num_programs(1) + peer
    for begin in range(program * FILL_BLOCK, received, chunks * tl.num_programs(1) * FILL_BLOCK):
        row = begin + tl.arange(0, FILL_BLOCK)
        tl.store(recv_src + row, tl.full((FILL_BLOCK,), -1, tl.int32), mask=row < received)


@triton.jit
def _place(
    ws_ptrs, sig, cnt, off, slots, recv_src, rank, tokens, half, ids_at, counts_at, local, chunks,
    R: tl.constexpr, K: tl.constexpr, LOCAL: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """The row of each choice: its expert's first, the rows of chunks before, and of tokens before in its chunk."""
    epoch = tl.load(sig + EPOCH)
    for peer in tl.static_range(R):
        _await(sig + READY + peer, (epoch + 1) * chunks)
    base = _half(ws_ptrs, rank, epoch, half)
    counts = (base + counts_at).to(tl.pointer_type(tl.int32))
    part = tl.program_id(0)
    expert = tl.arange(0, LOCAL)
    rows = tl.zeros((LOCAL,), tl.int32)
    ahead = tl.zeros((LOCAL,), tl.int32)
    for begin in range(0, R * chunks, PARTS_BLOCK):
        other = begin + tl.arange(0, PARTS_BLOCK)
        inside = (other < R * chunks)[:, None]
        counted = tl.load(counts + other[:, None] * LOCAL + expert[None, :], mask=inside, other=0)
        rows += tl.sum(counted, axis=0)
        ahead += tl.sum(tl.where((other < part)[:, None], counted, 0), axis=0)
    padded = (rows + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT
    end = tl.cumsum(padded, axis=0)
    first = end - padded
    tl.store(cnt + expert, rows, mask=(expert < local) & (part == 0))
    tl.store(off + expert + 1, end, mask=(expert < local) & (part == 0))
    tl.store(off + expert, first, mask=(expert < 1) & (part == 0))

    ids = (base + ids_at).to(tl.pointer_type(tl.int32))
    token = (part % chunks) * C + tl.arange(0, C)
    live = token < tokens
    pair = (part // chunks * tokens + token) * K
    taken = _taken(ids, pair, live, rank * local, expert, K)
    position = tl.cumsum(taken, axis=0) - taken + (first + ahead)[None, :]
    for j in tl.static_range(K):
        chosen = _choices(ids, pair, live, j, rank * local)
        here = (chosen[:, None] == expert[None, :]) & (expert < local)[None, :]
        row = tl.max(tl.where(here, position, -1), axis=1)
        tl.store(slots + pair + j, row, mask=live)
        tl.store(recv_src + row, pair + j, mask=live & (row >= 0))


@triton.jit
def _spread(slots, choices, recv_q, recv_s, payload, scale, column, group, K: tl.constexpr, G: tl.constexpr):
    """A quantised row to each row that its token has here."""
    inside = group < G
    for j in tl.static_range(K):
        row = tl.load(slots + choices + j).to(tl.int64)
        if row >= 0:
            tl.store(recv_q + row * (G * GROUP) + column, payload, mask=inside[:, None])
            tl.store(recv_s + row * G + group, scale, mask=inside)


@triton.jit
def _arrived(pad, owner, source, flags, R: tl.constexpr):
    """Where the flags of a source's rows begin in a rank's pad, which has some for each other rank."""
    return pad + ARRIVED + (source - owner - 1 + R) % R * flags


@triton.jit
def _push_rows(
    flag, x, ids, ws_ptrs, sig_ptrs, slots, recv_q, recv_s, rank, tokens, half, scales_at, local, flags, epoch,
    R: tl.constexpr, K: tl.constexpr, SLOTS: tl.constexpr, G: tl.constexpr, GROUPS: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Quantise rows once and store them where they are wanted; then one flag a rank says that these rows are there."""
    group = tl.arange(0, GROUPS)
    column = group[:, None] * GROUP + tl.arange(0, GROUP)[None, :]
    inside = group < G
    slot = tl.arange(0, SLOTS)
    for number in range(ROWS):
        token = flag * ROWS + number
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
            staged = rank.to(tl.int64) * tokens + token
            for peer in tl.static_range(R):
                wanted = tl.max((owner == peer).to(tl.int32), axis=0) > 0
                if wanted & (peer != rank):
                    base = _half(ws_ptrs, peer, epoch, half)
                    tl.store(_payload_at(base) + staged * (G * GROUP) + column, payload, mask=inside[:, None])
                    scales = (base + scales_at).to(tl.pointer_type(tl.float32))
                    tl.store(scales + staged * G + group, scale, mask=inside)
            _spread(slots, staged * K, recv_q, recv_s, payload, scale, column, group, K, G)
    tl.debug_barrier()
    for peer in tl.static_range(R):
        if peer != rank:
            arrived = _arrived(tl.load(sig_ptrs + peer).to(tl.pointer_type(tl.int32)), peer, rank, flags, R)
            tl.atomic_xchg(arrived + flag, epoch + 1, sem="release", scope="sys")


@triton.jit
def _expand(
    source, token, ws_ptrs, sig, slots, recv_q, recv_s, rank, tokens, half, scales_at, flags, epoch,
    R: tl.constexpr, K: tl.constexpr, G: tl.constexpr, GROUPS: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """One row that another rank staged to its rows here."""
    staged = source.to(tl.int64) * tokens + token
    wanted = tl.load(slots + staged * K)
    for j in tl.static_range(1, K):
        wanted = tl.maximum(wanted, tl.load(slots + staged * K + j))
    if wanted >= 0:
        _await(_arrived(sig, rank, source, flags, R) + token // ROWS, epoch + 1)
        group = tl.arange(0, GROUPS)
        column = group[:, None] * GROUP + tl.arange(0, GROUP)[None, :]
        inside = group < G
        base = _half(ws_ptrs, rank, epoch, half)
        payload = tl.load(_payload_at(base) + staged * (G * GROUP) + column, mask=inside[:, None])
        scale = tl.load((base + scales_at).to(tl.pointer_type(tl.float32)) + staged * G + group, mask=inside)
        _spread(slots, staged * K, recv_q, recv_s, payload, scale, column, group, K, G)


@triton.jit
def _pushers(ticket, flags, PERIOD: tl.constexpr):
    """How many programs push among those with tickets below this one: the first ones, then one in each period."""
    return tl.minimum(tl.where(ticket < LEAD, ticket, LEAD + (ticket - LEAD) // PERIOD), flags)


@triton.jit(do_not_specialize=["rank"])  # a rank that is 1 would be a constant, which has no 64-bit form
def _exchange(
    x, ids, ws_ptrs, sig, sig_ptrs, slots, recv_q, recv_s, rank, tokens, half, scales_at, local, flags,
    R: tl.constexpr, K: tl.constexpr, SLOTS: tl.constexpr, G: tl.constexpr, GROUPS: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Own rows out and those of other ranks in, side by side: the one is the link's work, the other memory's.

    Programs take their roles in the order in which they start. One that waits for a row has a ticket above that of the
    program that pushes it, on whatever rank, so that no waiting program is in the way of what it waits for, however few
    of a grid's programs run at the same time.
    """
    epoch = tl.load(sig + EPOCH)
    ticket = tl.atomic_add(sig + TICKET, 1, sem="relaxed", scope="gpu")
    period: tl.constexpr = ROWS * (R - 1) + 1
    pushers = _pushers(ticket, flags, period)
    if _pushers(ticket + 1, flags, period) > pushers:
        _push_rows(
            pushers, x, ids, ws_ptrs, sig_ptrs, slots, recv_q, recv_s, rank, tokens, half, scales_at, local, flags,
            epoch, R, K, SLOTS, G, GROUPS, ROWS,
        )  # fmt: skip
    else:
        source = (rank + 1 + (ticket - pushers) % (R - 1)) % R
        token = (ticket - pushers) // (R - 1)
        _expand(
            source, token, ws_ptrs, sig, slots, recv_q, recv_s, rank, tokens, half, scales_at, flags, epoch,
            R, K, G, GROUPS, ROWS,
        )  # fmt: skip
    tl.debug_barrier()
    if tl.atomic_add(sig + LEFT, 1, sem="acq_rel", scope="gpu") == tl.num_programs(0) - 1:
        tl.store(sig + TICKET, 0)
        tl.store(sig + LEFT, 0)
        tl.store(sig + EPOCH, epoch + 1)


def _rows_a_flag(tokens, ranks):
    """Tokens that one program pushes and one flag stands for: few, as long as there are words for all flags."""
    rows = 1 if tokens <= 512 else 4
    while triton.cdiv(tokens, rows) * (ranks - 1) > FLAGS:
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
    counts_at = ids_at + ranks * tokens * topk * 4
    recv_q = torch.empty((received, hidden), dtype=torch.float8_e4m3fn, device=x.device)
    recv_s = torch.empty((received, groups), dtype=torch.float32, device=x.device)
    recv_src = torch.empty((received,), dtype=torch.int32, device=x.device)
    slots = torch.empty((ranks, tokens, topk), dtype=torch.int32, device=x.device)
    off = torch.empty((local + 1,), dtype=torch.int32, device=x.device)
    cnt = torch.empty((local,), dtype=torch.int32, device=x.device)

    padded = max(16, triton.next_power_of_2(local))  # Triton 3.6 fails to compile sums over narrower tiles
    chunk = min(max(4096 // padded, 16), 128)
    chunks = triton.cdiv(tokens, chunk)
    if counts_at + ranks * chunks * padded * 4 > comm.ws.numel() // 2 - 256:
        raise ValueError(f"counts of {local} experts a rank are more than half a workspace has beside {tokens} tokens")
    tile = {"K": topk, "LOCAL": padded, "C": chunk}
    _push_choices[(chunks, ranks)](
        topk_ids, comm.ws_ptrs, comm.sig, comm.sig_ptrs, recv_src, comm.rank, tokens, half, ids_at, counts_at, local,
        received, PAIRS=triton.next_power_of_2(chunk * topk), **tile,
    )  # fmt: skip
    _place[(ranks * chunks,)](
        comm.ws_ptrs, comm.sig, cnt, off, slots, recv_src, comm.rank, tokens, half, ids_at, counts_at, local, chunks,
        R=ranks, **tile,
    )  # fmt: skip

    rows = _rows_a_flag(tokens, ranks)
    flags = triton.cdiv(tokens, rows)
    _exchange[(flags + (ranks - 1) * tokens,)](
        x, topk_ids, comm.ws_ptrs, comm.sig, comm.sig_ptrs, slots, recv_q.view(torch.uint8), recv_s, comm.rank, tokens,
        half, scales_at, local, flags, R=ranks, K=topk, SLOTS=triton.next_power_of_2(topk), G=groups,
        GROUPS=triton.next_power_of_2(groups), ROWS=rows, num_warps=8,
    )  # fmt: skip
    return recv_q, recv_s, recv_src, slots, off, cnt
