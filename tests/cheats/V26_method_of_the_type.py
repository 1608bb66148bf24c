# expect: rule_violation static.torch_names
# The method, taken from the type of the argument.
# without rules: rule_violation runtime.operators


def run(G, steps=5):
    return type(G).matmul(G, G.mT)
