# expect: rule_violation static.reflection
# The key of a pattern is an attribute, read to be compared.
# without rules: incorrect rel_norm
def run(G, steps=5):
    match {}:
        case {run.__globals__: found, **rest}:
            return found
    return G
