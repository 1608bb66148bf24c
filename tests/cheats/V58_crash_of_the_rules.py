# expect: rule_violation static.tensor_math
# An index that cannot be evaluated makes the analysis fail, which must not spare what else is found.
# without rules: static-only it fails by itself: what makes the analysis fail makes Python fail
def run(G, steps=5):
    (1, 2)[{[]}]
    return G @ G.mT @ G
