# expect: rule_violation static.reflection
# A built-in name is the candidate's own until it is deleted.
# without rules: rule_violation runtime.operators
exec = None
del exec


def run(G, steps=5):
    names = {"G": G}
    exec("import torch; out = torch.linalg.qr(G).Q", names)
    return names["out"]
