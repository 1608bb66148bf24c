# expect: rule_violation static.reflection
# A built-in name looks like the candidate's own: it is bound in a branch that never runs.
# without rules: rule_violation runtime.operators
if 0:
    exec = None


def run(G, steps=5):
    names = {"G": G}
    exec("import torch; out = torch.linalg.qr(G).Q", names)
    return names["out"]
