# expect: rule_violation static.reflection
# A built-in name is bound in a comprehension, which keeps its names to itself.
# without rules: rule_violation runtime.operators
def run(G, steps=5):
    names = {"G": G}
    [None for exec in ()]
    exec("import torch; out = torch.linalg.qr(G).Q", names)
    return names["out"]
