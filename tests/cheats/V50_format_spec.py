# expect: rule_violation static.reflection
# The work is done in the format of a format: where an f-string's own fields have fields.
# without rules: rule_violation runtime.operators
def run(G, steps=5):
    box = []
    f"{'':{(box.append(__import__('torch').linalg.qr(G).Q), '')[1]}}"
    return box.pop()
