# expect: rule_violation static.reflection
# A dict's display hashes its keys, and the candidate's __hash__ takes Python's function before its name is bound.
# without rules: rule_violation runtime.operators
import torch

box = []


class Key:
    def __hash__(self):
        box.append(early())
        return 1


key = Key()


def early():
    return eval


table = {key: 1}
eval = 1


def run(G, steps=5):
    return box[0]("lambda x, y: x * y")(G, torch.ones_like(G))
