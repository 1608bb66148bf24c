# expect: rule_violation static.reflection
# Patterns of a match statement read the attributes that lead to the built-ins, and from there to torch.
# without rules: rule_violation runtime.operators


def run(G, steps=5):
    match run:
        case object(__globals__=names):
            find = names["__builtins__"]["__import__"]
    match find("torch"):
        case object(linalg=part):
            match part:
                case object(qr=decompose):
                    return decompose(G)[0]
