def run(logits, bias, expert_load, num_valid, n_group, topk_group, topk, routed_scaling):
    raise NotImplementedError
