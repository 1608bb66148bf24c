"""Hidden variations of the inputs of all ranks, rows that gates are for, and the bounds of a call.

A variation takes a list of inputs for each rank and a secret generator, and returns new ones; those that it was given
stay as they are. The generator may live on another device than the inputs. A function of rows takes the arguments of
run() on one rank, without comm, and the outputs expected there.
"""

import torch


def _fewer(inputs: list, share: float, generator: torch.Generator) -> list:
    """The choices of a rank, about `share` of them dropped."""
    x, ids, experts = inputs
    kept = torch.rand(ids.shape, generator=generator, device=generator.device).to(ids.device) >= share
    return [x, ids.where(kept, -1), experts]


def _routed(inputs: list, first: int, count: int, generator: torch.Generator) -> list:
    """All choices of a rank among `count` experts from `first` on."""
    x, ids, experts = inputs
    drawn = torch.rand((len(ids), count), generator=generator, device=generator.device)
    order = drawn.argsort(dim=1)[:, : ids.shape[1]].to(ids.device) + first
    chosen = torch.full_like(ids, -1)
    chosen[:, : order.shape[1]] = order.to(ids.dtype)
    return [x, chosen, experts]


def all_to_one_rank(inputs: list, generator: torch.Generator) -> list:
    """Every choice of every rank is an expert of the last one: the others receive nothing."""
    world = len(inputs)
    local = inputs[0][2] // world
    return [_routed(values, (world - 1) * local, local, generator) for values in inputs]


def all_to_the_next_rank(inputs: list, generator: torch.Generator) -> list:
    """No token stays where it is."""
    world = len(inputs)
    local = inputs[0][2] // world
    return [_routed(values, (rank + 1) % world * local, local, generator) for rank, values in enumerate(inputs)]


def uneven_drops(inputs: list, generator: torch.Generator) -> list:
    """The first rank sends nothing at all; the others drop half of their choices, anywhere in a row."""
    return [_fewer(values, 0.5 if rank else 1.0, generator) for rank, values in enumerate(inputs)]


def nothing_sent(inputs: list, generator: torch.Generator) -> list:
    """No token of any rank has an expert."""
    return [_fewer(values, 1.0, generator) for values in inputs]


def one_expert_crowded(inputs: list, generator: torch.Generator) -> list:
    """Each token's first choice is the same expert, so that its rows need more than one block."""
    changed = []
    for x, ids, experts in inputs:
        crowded = ids.clone()
        crowded[crowded == experts - 1] = -1
        crowded[:, 0] = experts - 1
        changed.append([x, crowded, experts])
    return changed


def edges_of_scales(inputs: list, generator: torch.Generator) -> list:
    """Groups of zeros, of values below 1e-4, and with a largest value on either side of 1.75 times a power of two."""
    changed = []
    for x, ids, experts in inputs:
        groups = x.clone().unflatten(1, (-1, 128))
        kind = torch.randint(4, groups.shape[:2], generator=generator, device=generator.device).to(x.device)
        shift = torch.randint(-6, 7, groups.shape[:2], generator=generator, device=generator.device).to(x.device)
        small = (groups.float() / groups.float().abs().amax(dim=2, keepdim=True).clamp(min=1e-6)).to(x.dtype)
        power = torch.exp2(shift.float())
        for value, number in ((1.75, 0), (1.7578125, 1)):  # the next bfloat16 above 1.75
            edge = small.clone()
            edge[:, :, 5] = value
            edge = (edge.float() * power[:, :, None]).to(x.dtype)
            groups = torch.where((kind == number)[:, :, None], edge, groups)
        groups = torch.where((kind == 2)[:, :, None], torch.zeros_like(groups), groups)
        groups = torch.where((kind == 3)[:, :, None], (small.float() * 3e-5).to(x.dtype), groups)
        changed.append([groups.flatten(1), ids, experts])
    return changed


def received_rows(inputs: list, expected: dict) -> torch.Tensor:
    """Rows that are no padding."""
    return expected["recv_src"] >= 0


def memory_cap_bytes(workload: dict) -> int:
    """All outputs, and 64 MiB; less beside them at small shapes, where a bfloat16 copy of all rows would show."""
    return _output_bytes(workload) + min(64 << 20, 8192 + _output_bytes(workload) // 2)


def copy_budget_bytes(workload: dict) -> int:
    """The tokens of a rank once, as glue."""
    return 2 * workload["tokens"] * workload["hidden"]


def link_bytes(workload: dict) -> float:
    """Bytes that a rank has to send: of each token one quantised row to each other rank that has an expert of it, with
    a byte a scale, which is a power of two.
    """
    experts, topk, ranks = workload["experts"], workload["topk"], workload["ranks"]
    missed = 1.0
    for chosen in range(topk):
        missed *= (experts - experts // ranks - chosen) / (experts - chosen)
    row = workload["hidden"] + workload["hidden"] // 128
    return workload["tokens"] * (ranks - 1) * (1.0 - missed) * row


def _output_bytes(workload: dict) -> int:
    pairs = workload["ranks"] * workload["tokens"] * workload["topk"]
    local = workload["experts"] // workload["ranks"]
    rows = -(-(pairs + local * 127) // 128) * 128
    return rows * (workload["hidden"] + 4 * (workload["hidden"] // 128) + 4) + 4 * pairs + 8 * local + 4
