# expect: rule_violation static.reflection
# Annotations of *args and **kwargs run when the function is defined.
# without rules: incorrect rel_norm
def helper(*rest: __import__("torch").set_num_threads(1), **named: __import__("os").getpid()):
    return rest, named


def run(G, steps=5):
    return G.clone()
