# expect: rule_violation static.attributes
# A method is called with a tensor for self, whose methods then are those of the candidate's own instance.
# without rules: rule_violation runtime.operators
import torch

BOX = {}


class Own:
    def look(self):
        return self.mul(2)


def run(G, steps=5):
    BOX["own"] = Own
    BOX.get("own").look(G)
    return torch.empty_like(G)
