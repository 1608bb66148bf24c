# expect: rule_violation static.attributes
# A member of an enumeration, a comparison, a remainder: taken for numbers, so that a tensor in them may do anything.
# without rules: rule_violation runtime.operators
import enum

import torch

BOX = {}


def run(G, steps=5):
    BOX["G"] = G
    member = enum.Enum("Members", {"G": G}).G.value
    member.sum()
    (BOX.get("G") > 0).sum()
    divmod(BOX.get("G"), 2)[0].sum()
    round(BOX.get("G")).sum()
    return torch.empty_like(G)
