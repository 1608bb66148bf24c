"""Hidden variations of the routing inputs, what the gates need, and the bounds of a call.

A variation takes the inputs of `get_inputs` and a secret generator, and returns new inputs; the ones it was given stay
as they are. The generator may live on another device than the inputs.

The arguments of run() are logits, bias, expert_load, num_valid, n_group, topk_group, topk, routed_scaling.
"""

import torch

MARGIN = 2e-6
"""Scores in float32 are off by a few 1e-7: nearer ones may change places. The gate `set` has the same number.

In how many rows they do is not limited: one of a few rows is a large share, and where all scores of a row are near each
other, honest kernels differ in most of them.
"""


def _normal(shape, generator, like):
    draw = torch.randn(shape, generator=generator, device=generator.device, dtype=torch.float32)
    return draw.to(like.device)


def _with_valid_rows(inputs, count):
    changed = list(inputs)
    changed[3] = torch.full_like(inputs[3], count)
    return changed


def fresh_draw(inputs: list, generator: torch.Generator) -> list:
    """Normal logits that no seed of `get_inputs` produces."""
    return [_normal(inputs[0].shape, generator, inputs[0]), *inputs[1:]]


def ties(inputs: list, generator: torch.Generator) -> list:
    """Logits on a grid and no bias, so that equal scores are everywhere; every seventh row is constant.

    Every other row has a grid so coarse that the two best of a third of the groups are equal, or of more.
    """
    steps = torch.full_like(inputs[0][:, :1], 8.0)
    steps[1::2] = 2.0
    logits = (_normal(inputs[0].shape, generator, inputs[0]) * steps).round() / steps
    logits[::7] = logits[::7, :1]
    return [logits, torch.zeros_like(inputs[1]), *inputs[2:]]


def strong_bias(inputs: list, generator: torch.Generator) -> list:
    """A bias as large as the scores: the chosen are not those with the largest scores."""
    return [inputs[0], 0.5 * _normal(inputs[1].shape, generator, inputs[1]), *inputs[2:]]


def negative_scores(inputs: list, generator: torch.Generator) -> list:
    """A bias that makes every biased score negative: the order of their bits is not that of the numbers."""
    return [inputs[0], 0.5 * _normal(inputs[1].shape, generator, inputs[1]) - 4, *inputs[2:]]


def wide_logits(inputs: list, generator: torch.Generator) -> list:
    """Logits from -12 to 12, and counters just below the largest int32."""
    draw = torch.rand(inputs[0].shape, generator=generator, device=generator.device, dtype=torch.float32)
    load = torch.full_like(inputs[2], 2**31 - 2)
    return [(24 * draw - 12).to(inputs[0].device), inputs[1], load, *inputs[3:]]


def ends_of_the_sigmoid(inputs: list, generator: torch.Generator) -> list:
    """Rows whose scores are all 0, rows whose scores are about 1e-20, and rows whose scores are all 1."""
    shift = torch.tensor([-200.0, -46.0, 200.0], device=inputs[0].device).repeat(inputs[0].shape[0] // 3 + 1)
    return [inputs[0] + shift[: inputs[0].shape[0], None], *inputs[1:]]


def wide_bias(inputs: list, generator: torch.Generator) -> list:
    """A bias from -15 to 15, the same for two neighbours, whose scores differ by little more than the margin."""
    tokens, experts = inputs[0].shape
    draw = torch.rand(experts // 2, generator=generator, device=generator.device, dtype=torch.float32)
    bias = (30 * draw - 15).to(inputs[1].device).repeat_interleave(2)
    bias[:6] = 14.5
    logits = (0.3 * _normal((tokens, experts // 2), generator, inputs[0])).repeat_interleave(2, dim=1)
    logits[:, 1::2] += 1.2e-5
    return [logits, bias, *inputs[2:]]


def no_valid_rows(inputs: list, generator: torch.Generator) -> list:
    """Padding alone."""
    return _with_valid_rows(inputs, 0)


def one_valid_row(inputs: list, generator: torch.Generator) -> list:
    """One token, and padding whose logits are the largest: were they counted, it would show."""
    changed = _with_valid_rows(inputs, 1)
    changed[0] = inputs[0].clone()
    changed[0][1:] += 4
    return changed


def some_rows_valid(inputs: list, generator: torch.Generator) -> list:
    """Any number of valid rows, so that what a kernel knows of a shape does not tell it where the padding begins."""
    drawn = torch.randint(1, inputs[0].shape[0], (), generator=generator, device=generator.device)
    return _with_valid_rows(inputs, int(drawn))


def all_rows_valid(inputs: list, generator: torch.Generator) -> list:
    """No padding, where the workload has some."""
    return _with_valid_rows(inputs, inputs[0].shape[0])


def selection_scores(inputs: list) -> list:
    """Biased scores in fp64, -inf in groups that are left out; where two groups are too near to tell, both ways.

    Only the last group kept and the first one left out change places. A third group as near as these would do an honest
    kernel wrong, about once in 1e5 checks of the largest workload; so would groups that are equal in fp64, of other
    scores, and differ in float32.
    """
    logits, bias, _, _, n_group, topk_group = inputs[:6]
    tokens, experts = logits.shape
    biased = torch.sigmoid(logits.double()) + bias.double()
    if topk_group >= n_group:
        return [biased]
    grouped = biased.view(tokens, n_group, experts // n_group)
    ranked = torch.sort(grouped.topk(2, dim=-1).values.sum(dim=-1), dim=-1, descending=True, stable=True)
    gap = ranked.values[:, topk_group - 1] - ranked.values[:, topk_group]
    near = (gap > 0) & (gap <= 2 * MARGIN)
    order = ranked.indices
    exchanged = order.clone()
    exchanged[:, topk_group - 1] = torch.where(near, order[:, topk_group], order[:, topk_group - 1])
    tables = []
    for kept in (order[:, :topk_group], exchanged[:, :topk_group]):
        left_out = torch.ones_like(order, dtype=torch.bool).scatter(1, kept, torch.zeros_like(kept, dtype=torch.bool))
        tables.append(grouped.masked_fill(left_out[:, :, None], float("-inf")).view(tokens, experts))
    return tables


def weights_of_ids(inputs: list, outputs: dict) -> torch.Tensor:
    """The weights that belong to the experts that were returned: from the scores, without the bias."""
    logits, routed_scaling = inputs[0], inputs[7]
    ids = outputs["topk_ids"]
    chosen = torch.sigmoid(logits).gather(1, ids.clamp(0, logits.shape[1] - 1).long())
    weights = chosen / (chosen.sum(dim=-1, keepdim=True) + 1e-20) * routed_scaling
    return torch.where(ids >= 0, weights, 0.0)


def padding_rows(inputs: list, expected: dict) -> torch.Tensor:
    """Rows that are no tokens."""
    return torch.arange(inputs[0].shape[0], device=inputs[0].device) >= inputs[3]


def memory_cap_bytes(workload: dict) -> int:
    """Both outputs, room for partial counts, however they are made, and some more: no byte for each logit."""
    tokens, experts = workload["tokens"], workload["experts"]
    counts = 4 * experts * min(4 * 132, -(-tokens // 8))
    return 8 * tokens * workload["topk"] + counts + min(1 << 20, tokens * experts // 4)


def copy_budget_bytes(workload: dict) -> int:
    """Both outputs once, as glue."""
    return workload["tokens"] * workload["topk"] * 8
