# expect: rule_violation static.attributes
# A method is called with a generator for self, whose frame is then an attribute of the candidate's own instance.
# without rules: rule_violation runtime.operators
import torch

BOX = {}


class Own:
    f_builtins = None

    def look(self):
        return self.gi_frame.f_builtins


def run(G, steps=5):
    BOX["own"] = Own
    BOX.get("own").look(x for x in "a")["exec"]("G * 2", {"G": G})
    return torch.empty_like(G)
