"""What `run` has to compute, written for clarity in PyTorch. Not for speed."""

import torch


def _best_first(values, count):
    """Positions of the `count` largest values of each row, the largest first; of equal ones the lower position."""
    return torch.sort(values, dim=-1, descending=True, stable=True).indices[:, :count]


def _outside(chosen, size):
    """True at every position of [T, size] that `chosen` [T, count] does not name."""
    outside = torch.ones(chosen.shape[0], size, dtype=torch.bool, device=chosen.device)
    return outside.scatter(1, chosen, torch.zeros_like(chosen, dtype=torch.bool))


def run(logits, bias, expert_load, num_valid, n_group, topk_group, topk, routed_scaling):
    tokens, experts = logits.shape
    scores = torch.sigmoid(logits)
    biased = scores + bias
    if n_group > 1:
        grouped = biased.view(tokens, n_group, experts // n_group)
        group_scores = grouped.topk(2, dim=-1).values.sum(dim=-1)
        left_out = _outside(_best_first(group_scores, topk_group), n_group)
        biased = grouped.masked_fill(left_out[:, :, None], float("-inf")).view(tokens, experts)
    ids = _best_first(biased, topk)
    chosen = scores.gather(1, ids)
    weights = chosen / (chosen.sum(dim=-1, keepdim=True) + 1e-20) * routed_scaling

    valid = (torch.arange(tokens, device=logits.device) < num_valid)[:, None]
    counted = valid.expand(tokens, topk).to(torch.int32)
    expert_load.scatter_add_(0, ids.reshape(-1), counted.reshape(-1))
    return torch.where(valid, weights, 0.0), torch.where(valid, ids, -1).to(torch.int32)
