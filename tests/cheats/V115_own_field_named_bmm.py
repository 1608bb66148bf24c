# expect: rule_violation static.attributes
# A class has a field that is named like a tensor's method, which is read of a value of unknown type and called later.
# without rules: rule_violation runtime.operators
class Batch:
    bmm = None
    matmul = None


box = {}


def run(G, steps=5):
    box["G"] = G
    x = box.get("G")
    product = x.bmm if steps else x.matmul
    return product(x.mT)
